"""The compared methods' losses: against loops, finite differences and PyG; and what feeds them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lrgi import seed as randomness
from lrgi.baselines.augment import Shares, augmented, drop_edges, mask_columns, shuffle_rows
from lrgi.baselines.bgrl import BGRLSettings, Bootstrap, bgrl_terms, inertia_at
from lrgi.baselines.cca_ssg import CanonicalCorrelation, CCASettings, cca_terms
from lrgi.baselines.dgi import DeepGraphInfomax, dgi_terms
from lrgi.baselines.gbt import BarlowTwins, GBTSettings, gbt_terms
from lrgi.baselines.graphmae import GraphMAESettings, MaskedAutoencoder, draw_mask, scaled_cosine_error
from lrgi.baselines.supervised import Classification, cross_entropy
from lrgi.baselines.untrained import untrained_encoder
from lrgi.errors import InputError
from lrgi.graph.graph import Graph
from lrgi.graph.synthetic import planted_communities
from lrgi.layers.rows import Rows
from lrgi.layers.stack import Stack
from lrgi.sampling.sample import sample_block, whole_graph
from lrgi.training.journal import Place
from lrgi.training.objective import Infomax, outermost_first
from lrgi.training.plan import FitPlan
from reference import baselines as twins
from reference.graphs import random_graph

PLAN = FitPlan(layers=2, width=8, heads=2, expansion=2, seed=5)
PLACE = Place(1, 1, 3, 10)


def matrices(count: int, rows: int = 9, width: int = 5) -> list[torch.Tensor]:
    random = np.random.default_rng(count)
    return [torch.from_numpy(random.normal(size=(rows, width))) for _ in range(count)]


@pytest.fixture(scope="module")
def graph() -> Graph:
    return planted_communities(nodes=300, edges=2_400, features=12, seed=2)


def new_stack(graph: Graph, plan: FitPlan = PLAN) -> Stack:
    return Stack(untrained_encoder(plan, graph.num_features).layers)


def sampled(graph: Graph, hops: int):
    return sample_block(graph, np.arange(0, 60, 2), (4,) * hops, randomness.key(0, "test"))


def test_every_loss_is_its_papers_equation():
    z, other, *_ = matrices(4)
    (square,) = matrices(1, 5, 5)
    np.testing.assert_allclose(dgi_terms(z, other, square), twins.dgi(z, other, square), rtol=1e-12)
    np.testing.assert_allclose(gbt_terms(z, other), twins.gbt(z, other), rtol=1e-6)  # variances + 1e-8
    np.testing.assert_allclose(cca_terms(z, other, 0.3), twins.cca(z, other, 0.3), rtol=1e-6)
    np.testing.assert_allclose(bgrl_terms(*matrices(4)), twins.bgrl(*matrices(4)), rtol=1e-12)
    for gamma in (1.0, 2.0, 3.0):
        expected = twins.graphmae(z, other, gamma)
        np.testing.assert_allclose(scaled_cosine_error(z, other, gamma), expected, rtol=1e-12)
    labels = torch.tensor([0, 4, 2, 2, 1, 3, 0, 4, 1])
    np.testing.assert_allclose(cross_entropy(z, labels), twins.cross_entropy(z, labels), rtol=1e-12)
    many = (other > 0).to(torch.uint8)
    np.testing.assert_allclose(cross_entropy(z, many), twins.binary_cross_entropy(z, many), rtol=1e-12)
    assert float(cross_entropy(z[:0], labels[:0])) == 0


def test_gradients_are_finite_differences():
    leaves = [x.requires_grad_() for x in matrices(4, 6, 3)]
    (square,) = matrices(1, 3, 3)
    for function, inputs in (
        (dgi_terms, (*leaves[:2], square.requires_grad_())),
        (gbt_terms, leaves[:2]),
        (lambda a, b: cca_terms(a, b, 0.3), leaves[:2]),
        (bgrl_terms, leaves),
        (lambda a, b: (scaled_cosine_error(a, b, 3.0),), leaves[:2]),
    ):
        assert torch.autograd.gradcheck(lambda *x, f=function: tuple(f(*x)), tuple(inputs))


def test_columns_without_variance_leave_finite_gradients():
    x = torch.ones(7, 3, requires_grad=True)
    sum(gbt_terms(x, x * 2)).backward()
    assert torch.isfinite(x.grad).all()


@pytest.mark.parametrize("kind", ["gat", "sage", "gcn"])
def test_dgi_is_pygs_on_a_whole_graph(graph, kind):
    from torch_geometric.nn import DeepGraphInfomax as PyGs

    stack = new_stack(graph, PLAN.with_settings(layer=kind))
    objective, block = DeepGraphInfomax(PLAN, 8), whole_graph(graph, 0, 2)
    ours = objective.terms(stack, graph.features, block, PLACE).total(PLAN.weights)
    parameters = [*stack.parameters(), objective.weight]
    gradients = torch.autograd.grad(ours, parameters)

    class Encoder(torch.nn.Module):
        def forward(self, x):
            return stack(x, *outermost_first(block))

    order = randomness.stream(PLAN.seed, "dgi", "rows", PLACE.step).permutation(graph.num_nodes)
    summary = lambda z, *_: torch.sigmoid(z.mean(0))  # noqa: E731
    theirs = PyGs(8, Encoder(), summary, corruption=lambda x: x[torch.from_numpy(order)])
    theirs.weight = objective.weight
    loss = theirs.loss(*theirs(Rows(graph.features).dense()))
    np.testing.assert_allclose(ours.item(), loss.item(), rtol=1e-5)
    for mine, other in zip(gradients, torch.autograd.grad(loss, parameters), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-3, atol=1e-5)


OBJECTIVES = {
    "infomax": lambda graph, stack: Infomax(PLAN, 1, 8),
    "dgi": lambda graph, stack: DeepGraphInfomax(PLAN, 8),
    "gbt": lambda graph, stack: BarlowTwins(PLAN, GBTSettings()),
    "cca-ssg": lambda graph, stack: CanonicalCorrelation(PLAN, CCASettings()),
    "bgrl": lambda graph, stack: Bootstrap(PLAN, stack, BGRLSettings()),
    "graphmae": lambda graph, stack: MaskedAutoencoder(PLAN, stack, GraphMAESettings()),
    "supervised": lambda graph, stack: Classification(graph, PLAN, 8),
}


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("kind", ["gat", "sage", "gcn"])
@pytest.mark.parametrize("whole", [True, False])
def test_every_parameter_feels_the_loss(graph, name, kind, whole):
    stack = new_stack(graph, PLAN.with_settings(layer=kind))
    objective = OBJECTIVES[name](graph, stack)
    hops = stack.hops + objective.hops
    block = whole_graph(graph, 0, hops) if whole else sampled(graph, hops)
    terms = objective.terms(stack, graph.features, block, PLACE)
    assert all(part.ndim == 0 for part in terms._asdict().values())
    terms.total(PLAN.weights).backward()
    for where, module in (("encoder", stack), ("objective", objective)):
        for parameter_name, parameter in module.named_parameters():
            if parameter.requires_grad:
                assert parameter.grad is not None, (where, parameter_name)
                assert parameter.grad.abs().max() > 0, (where, parameter_name)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_sparse_features_give_the_loss_of_dense_ones(name):
    losses = []
    for sparse in (False, True):
        graph = random_graph(3, sparse=sparse)
        table = graph.features
        if not sparse:  # the same values
            table = random_graph(3, sparse=True).features
            table = type(graph.features)(table.rows(np.arange(graph.num_nodes)))
        labels = np.arange(graph.num_nodes) % 3
        graph = Graph(graph.indptr, graph.indices, table, labels=labels, split=np.ones(len(labels), np.uint8))
        stack = new_stack(graph)
        objective = OBJECTIVES[name](graph, stack)
        block = whole_graph(graph, 0, stack.hops + objective.hops)
        losses.append(objective.terms(stack, table, block, PLACE).total(PLAN.weights).item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_dropped_edges_are_a_share_of_the_blocks_own(graph):
    block = sampled(graph, 2)
    thin = drop_edges(block, 0.4, np.random.default_rng(0))
    assert 0.4 < len(thin.indices) / len(block.indices) < 0.8
    assert np.array_equal(thin.nodes, block.nodes)
    assert thin.ring_ends == block.ring_ends
    for row in range(len(block.indptr) - 1):
        mine = thin.indices[thin.indptr[row] : thin.indptr[row + 1]].tolist()
        assert set(mine) <= set(block.indices[block.indptr[row] : block.indptr[row + 1]].tolist())
        assert len(set(mine)) == len(mine)
    assert drop_edges(block, 0.0, np.random.default_rng(0)) is block


@pytest.mark.parametrize("sparse", [False, True])
def test_masked_columns_are_zero_in_every_row(sparse):
    graph = random_graph(1, width=20, sparse=sparse)
    for nodes in (None, np.array([5, 2, 2, 11], np.int32)):
        rows = Rows(graph.features, nodes)
        masked = mask_columns(rows, 0.5, np.random.default_rng(1)).dense().numpy()
        kept = (np.random.default_rng(1).random(20, dtype=np.float32) >= 0.5).astype(np.float32)
        assert 0 < kept.sum() < 20
        np.testing.assert_array_equal(masked, rows.dense().numpy() * kept)


def test_shuffled_rows_are_the_same_rows():
    graph = random_graph(1)
    for nodes in (None, np.array([5, 2, 8, 11], np.int32)):
        rows = Rows(graph.features, nodes)
        shuffled = shuffle_rows(rows, np.random.default_rng(0)).dense().numpy()
        assert not np.array_equal(shuffled, rows.dense().numpy())
        assert sorted(shuffled.tolist()) == sorted(rows.dense().numpy().tolist())


def test_views_differ_by_step_and_not_by_call(graph):
    stack, block = new_stack(graph), sampled(graph, 2)
    draws = []
    for step in (1, 1, 2):
        random = randomness.stream(0, "view", step)
        rows, hops = augmented(graph.features, block, stack, Shares(0.3, 0.3), random)
        draws.append((rows.dense().numpy(), hops[0].indices))
    assert np.array_equal(draws[0][0], draws[1][0])
    assert np.array_equal(draws[0][1], draws[1][1])
    assert not np.array_equal(draws[0][1], draws[2][1])


def test_a_mask_is_the_share_of_targets_and_of_the_rest(graph):
    block, settings = sampled(graph, 3), GraphMAESettings(masked=0.5, replaced=0.2)
    mask = draw_mask(block, settings, np.random.default_rng(0))
    nodes, count = mask.nodes, len(block.nodes)
    assert len(set(nodes.tolist())) == len(nodes)
    assert (nodes < block.num_targets).sum() == round(0.5 * block.num_targets)
    assert (nodes >= block.num_targets).sum() == round(0.5 * (count - block.num_targets))
    assert len(mask.replaced) == len(mask.others) == round(0.2 * len(nodes))


def test_graphmae_sees_nothing_of_the_masked_features(graph):
    """Changing masked features (none replaced) leaves what is restored for them unchanged."""
    settings = GraphMAESettings(masked=0.5, replaced=0.0, gamma=1.0)
    stack = new_stack(graph)
    objective, block = MaskedAutoencoder(PLAN, stack, settings), whole_graph(graph, 0, 3)
    mask = draw_mask(block, settings, randomness.stream(PLAN.seed, "graphmae", "mask", PLACE.step))
    changed = graph.features.array.copy()
    changed[mask.nodes] *= -1  # every cosine changes its sign, if the restored rows stay
    with torch.no_grad():
        before = objective.terms(stack, graph.features, block, PLACE).error
        after = objective.terms(stack, type(graph.features)(changed), block, PLACE).error
    assert 1 - before.item() == pytest.approx(after.item() - 1, abs=1e-6)
    assert abs(before.item() - 1) > 1e-4


def test_the_target_follows_the_online_encoder(graph):
    stack = new_stack(graph)
    objective = Bootstrap(PLAN, stack, BGRLSettings(inertia=0.6))
    slow = [p.clone() for p in objective.target.parameters()]
    objective.after_step(stack, PLACE)
    tau = inertia_at(0.6, PLACE.step, PLACE.steps)
    for before, after, fast in zip(slow, objective.target.parameters(), stack.parameters(), strict=True):
        torch.testing.assert_close(after, tau * before + (1 - tau) * fast)
        assert not after.requires_grad
    assert inertia_at(0.6, 0, 10) == pytest.approx(0.6)
    assert inertia_at(0.6, 10, 10) == 1


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: GBTSettings(edges=1.0).shares, "the share of edges to drop must be from 0 to below 1"),
        (lambda: CCASettings(columns=-0.1).shares, "the share of columns to mask must be from 0"),
        (lambda: CCASettings(decorrelation=-1.0), "decorrelation must be 0 or more"),
        (lambda: BGRLSettings(inertia=1.5), "inertia must be from 0 to below 1"),
        (lambda: GraphMAESettings(masked=1.0), "the share of nodes to mask must be from 0"),
        (lambda: GraphMAESettings(gamma=0.5), "gamma must be at least 1"),
    ],
)  # fmt: skip
def test_settings_that_cannot_be_are_refused(make, sentence):
    with pytest.raises(InputError, match=sentence):
        make()
