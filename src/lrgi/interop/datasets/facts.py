"""The data sets that have a name here, and what is known of each before its files are opened."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lrgi.errors import FormatError, InputError
from lrgi.graph.graph import Graph
from lrgi.graph.split import TEST, TRAIN, VALIDATION

_EDGES = 0.01  # repeated edges merge and loops are dropped here, and libraries count them differently


@dataclass(frozen=True)
class Facts:
    """Published statistics. `edges` are directed ones; a split is nodes of training, validation, test."""

    nodes: int
    edges: int
    columns: int
    classes: int
    graphs: int = 1
    split: tuple[int, int, int] | None = None

    @classmethod
    def of(cls, graph: Graph) -> Facts:
        """Those of a graph."""
        labels, split = graph.labels, graph.split
        classes = 0 if labels is None else labels.shape[1] if labels.ndim == 2 else int(labels.max()) + 1
        parts = None
        if split is not None:
            train, validation, test = (int(np.count_nonzero(split == p)) for p in (TRAIN, VALIDATION, TEST))
            parts = (train, validation, test)
        return cls(graph.num_nodes, graph.num_edges, graph.num_features, classes, graph.num_graphs, parts)


@dataclass(frozen=True)
class Named:
    """A data set: its facts, who publishes it, and its raw files with their folder below the root."""

    facts: Facts
    library: str
    folder: str
    files: tuple[str, ...]
    pickled: bool = False


def _planetoid(name: str, facts: Facts) -> Named:
    kinds = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")
    return Named(facts, "PyG", f"{name}/raw", tuple(f"ind.{name}.{kind}" for kind in kinds), pickled=True)


def _ogb(name: str, split: str, facts: Facts) -> Named:
    raw = ("edge", "node-feat", "node-label", "num-node-list", "num-edge-list")
    files = [f"raw/{one}.csv.gz" for one in raw] + [
        f"split/{split}/{p}.csv.gz" for p in ("train", "valid", "test")
    ]
    return Named(facts, "OGB", name.replace("-", "_"), tuple(files))


_PPI = tuple(
    f"{part}_{kind}" for part in ("train", "valid", "test")
    for kind in ("feats.npy", "graph_id.npy", "graph.json", "labels.npy")
)  # fmt: skip

# PyG's tables of statistics (its docstrings), OGB's papers and, where it has the graph, the paper's table.
# PPI: the paper's (and PyG's) averages of 2,245 nodes and 61,318 edges are those of the 20 training graphs.
NAMED: dict[str, Named] = {
    "ppi": Named(Facts(56_944, 1_587_186, 50, 121, 24, (44_906, 6_514, 5_524)), "PyG", "ppi/raw", _PPI),
    "reddit": Named(
        Facts(232_965, 114_615_892, 602, 41, split=(153_431, 23_831, 55_703)),
        "PyG", "reddit/raw", ("reddit_data.npz", "reddit_graph.npz"),
    ),
    "ogbn-products": _ogb(
        "ogbn-products", "sales_ranking",
        Facts(2_449_029, 2 * 61_859_140, 100, 47, split=(196_615, 39_323, 2_213_091)),
    ),
    "ogbn-arxiv": _ogb(
        "ogbn-arxiv", "time", Facts(169_343, 2_315_598, 128, 40, split=(90_941, 29_799, 48_603))
    ),
    "flickr": Named(
        Facts(89_250, 899_756, 500, 7, split=(44_625, 22_312, 22_313)),
        "PyG", "flickr/raw", ("adj_full.npz", "feats.npy", "class_map.json", "role.json"),
    ),
    "cora": _planetoid("cora", Facts(2_708, 10_556, 1_433, 7, split=(140, 500, 1_000))),
    "citeseer": _planetoid("citeseer", Facts(3_327, 9_104, 3_703, 6, split=(120, 500, 1_000))),
    "pubmed": _planetoid("pubmed", Facts(19_717, 88_648, 500, 3, split=(60, 500, 1_000))),
    "amazon-computers": Named(
        Facts(13_752, 491_722, 767, 10), "PyG", "Computers/raw", ("amazon_electronics_computers.npz",)
    ),
    "amazon-photo": Named(
        Facts(7_650, 238_162, 745, 8), "PyG", "Photo/raw", ("amazon_electronics_photo.npz",)
    ),
    "coauthor-cs": Named(Facts(18_333, 163_788, 6_805, 15), "PyG", "CS/raw", ("ms_academic_cs.npz",)),
    "coauthor-physics": Named(
        Facts(34_493, 495_924, 8_415, 5), "PyG", "Physics/raw", ("ms_academic_phy.npz",)
    ),
    "wikics": Named(Facts(11_701, 431_206, 300, 10), "PyG", "wikics/raw", ("data.json",)),
}  # fmt: skip


def named(name: str) -> Named:
    """The data set of that name; InputError where there is none."""
    if name not in NAMED:
        raise InputError(f"a data set must be one of {', '.join(NAMED)}, got {name!r}; choose one")
    return NAMED[name]


def check_facts(name: str, graph: Graph, facts: Facts) -> None:
    """FormatError for a graph that is not the published one; edges may differ by 1 in 100."""
    found = Facts.of(graph)
    if facts.split is None:  # a split of ours, or one of several, is nobody's statistic
        found = replace(found, split=None)
    if abs(found.edges - facts.edges) <= _EDGES * facts.edges:
        found = replace(found, edges=facts.edges)
    for key, expected in vars(facts).items():
        value = getattr(found, key)
        if value != expected:
            raise FormatError(
                f"{name} must have {key} {expected}, got {value}; its raw files are of another version or "
                "damaged, download them again"
            )
