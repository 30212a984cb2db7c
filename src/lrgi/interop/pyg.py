"""PyTorch Geometric's Data in and out; torch_geometric is imported only when a function runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from lrgi.errors import InputError
from lrgi.graph.features import DenseTable, SparseTable, Table, as_table
from lrgi.graph.graph import Graph
from lrgi.graph.inductive import join_tables
from lrgi.graph.split import TEST, TRAIN, VALIDATION, split_from_masks
from lrgi.interop.featured import Source, featured, no_features

_MASKS = (("train_mask", TRAIN), ("val_mask", VALIDATION), ("test_mask", TEST))


def from_pyg(data: Any, *, split: int = 0, name: str = "graph", features_from: Source = None) -> Graph:
    """A graph from a PyG Data or a HeteroData with one node type, or one of many parts from a list of them
    (or from a Batch).

    edge_index is taken as it is, row 0 sending to row 1, since PyG lists both directions of an
    undirected edge; duplicates merge and self loops are dropped. Masks become the split; of masks
    [N, S] the column `split` is taken. y [N] are classes, y [N, C] many labels of 0 and 1. Edge types of a
    HeteroData become one. With `features_from` (`featured`) there may be no x.
    """
    many = isinstance(data, Sequence)
    parts = [_of_one_type(part) for part in (data if many else [data])]
    if not parts:
        raise InputError("the list of graphs must have at least one, got none; give some Data objects")
    for part in parts:
        _check_data(part, ("edge_index",) if features_from else ("edge_index", "x"))
    sizes = [_rows(part) for part in parts]
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    splits = [_split(part, size, split) for part, size in zip(parts, sizes, strict=True)]
    if not many and getattr(parts[0], "ptr", None) is not None:
        offsets = _numpy(parts[0].ptr)
    graph = Graph.from_edges(
        _joined_edges(parts, sizes) if many else _numpy(parts[0].edge_index),
        join_tables([_table(part, size) for part, size in zip(parts, sizes, strict=True)]),
        directed=None,  # an undirected edge is listed in both directions
        labels=_all_or_none("y", [_labels(part) for part in parts]),
        split=_all_or_none("masks", splits),
        ids=_all_or_none("n_id", [_ids(part) for part in parts]),
        offsets=offsets,
        name=name,
    )
    return featured(graph, features_from)


def to_pyg(graph: Graph) -> Any:
    """A PyG Data with copies of the arrays: edge_index, x (sparse features as a sparse COO tensor),
    and where there are such y, train_mask, val_mask, test_mask, n_id (ids) and ptr (many graphs).
    """
    from torch_geometric.data import Data

    receiver = np.repeat(np.arange(graph.num_nodes), graph.degrees())
    edges = torch.from_numpy(np.stack([graph.indices.astype(np.int64, copy=False), receiver]))
    data = Data(x=_tensor(graph.features), edge_index=edges, num_nodes=graph.num_nodes)
    if graph.labels is not None:
        data.y = torch.from_numpy(graph.labels.copy())
    if graph.split is not None:
        for key, part in _MASKS:
            data[key] = torch.from_numpy(graph.split == part)
    if graph.ids is not None:
        data.n_id = graph.ids.tolist() if graph.ids.dtype.kind == "U" else torch.from_numpy(graph.ids.copy())
    if graph.num_graphs > 1:
        data.ptr = torch.from_numpy(graph.offsets.copy())
    return data


def _of_one_type(part: Any) -> Any:
    """A HeteroData with one node type as a Data; anything else as it is."""
    from torch_geometric.data import Data, HeteroData

    if not isinstance(part, HeteroData):
        return part
    if len(part.node_types) != 1:
        raise InputError(
            f"a HeteroData must have one node type, got {len(part.node_types)} "
            f"({', '.join(part.node_types) or 'none'}); LRGI knows no types: take one of them, or give "
            "all the same columns and call to_homogeneous()"
        )
    stores = [part[kind] for kind in part.edge_types]
    edges = [store.edge_index for store in stores if getattr(store, "edge_index", None) is not None]
    given = part[part.node_types[0]].to_dict()
    return Data(edge_index=torch.cat(edges, dim=1) if edges else None, **given)


def _check_data(part: Any, needed: Sequence[str]) -> None:
    from torch_geometric.data import Data

    if not isinstance(part, Data):
        raise InputError(
            f"a PyG graph must be a Data, a HeteroData or a list of them, got {type(part).__name__}; "
            "call list() on a dataset"
        )
    for key in needed:
        if getattr(part, key, None) is None:
            remedy = f"set data.{key} first" + (", or give features_from='degree'" if key == "x" else "")
            raise InputError(f"a PyG graph must have {key}, got None; {remedy}")


def _rows(part: Any) -> int:
    return int(part.x.shape[0] if part.x is not None else part.num_nodes)


def _joined_edges(parts: list[Any], sizes: list[int]) -> npt.NDArray[Any]:
    """All edges, numbered on from part to part; an id beyond its part would reach into the next one."""
    joined, start = [], 0
    for part, size in zip(parts, sizes, strict=True):
        edges = _numpy(part.edge_index)
        if edges.ndim != 2 or edges.shape[0] != 2:
            raise InputError(f"edge_index must have shape (2, E), got {edges.shape}; transpose it")
        if edges.size and not (int(edges.min()) >= 0 and int(edges.max()) < size):
            wrong = int(edges.min()) if int(edges.min()) < 0 else int(edges.max())
            raise InputError(
                f"node ids in edge_index must lie in 0 to {size - 1}, got {wrong}; "
                "give features for every node"
            )
        joined.append(edges.astype(np.int64, copy=False) + start)
        start += size
    return np.concatenate(joined, axis=1)


def _numpy(tensor: Any) -> npt.NDArray[Any]:
    return np.asarray(tensor.detach().cpu()) if isinstance(tensor, torch.Tensor) else np.asarray(tensor)


def _table(part: Any, size: int) -> Table:
    x: Any = part.x
    if x is None:
        return no_features(size)
    if not isinstance(x, torch.Tensor):
        return as_table(x)
    x = x.detach().cpu()
    if x.layout == torch.strided:
        return DenseTable((x.float() if x.dtype == torch.bfloat16 else x).numpy())
    coo = (x if x.layout == torch.sparse_coo else x.to_sparse_coo()).coalesce()
    row, column = coo.indices().numpy()
    indptr = np.searchsorted(row, np.arange(x.shape[0] + 1))
    return SparseTable(indptr, column, coo.values().float().numpy(), int(x.shape[1]))


def _tensor(table: Table) -> torch.Tensor:
    if isinstance(table, DenseTable):
        return torch.from_numpy(table.array.copy())
    row = np.repeat(np.arange(table.shape[0]), np.diff(table.indptr))
    at = torch.from_numpy(np.stack([row, table.indices.astype(np.int64)]))
    data = torch.from_numpy(table.data.copy())
    return torch.sparse_coo_tensor(at, data, table.shape, check_invariants=True).coalesce()


def _labels(part: Any) -> npt.NDArray[Any] | None:
    y = getattr(part, "y", None)
    if y is None:
        return None
    labels = _numpy(y)
    return labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels


def _split(part: Any, size: int, column: int) -> npt.NDArray[Any] | None:
    masks = []
    for key, _ in _MASKS:
        given = getattr(part, key, None)
        mask = None if given is None else _numpy(given)
        if mask is not None and mask.ndim == 2:
            if not 0 <= column < mask.shape[1]:
                raise InputError(
                    f"split must lie in 0 to {mask.shape[1] - 1}, got {column}; choose a column of {key}"
                )
            mask = mask[:, column]
        masks.append(mask)
    return split_from_masks(size, *masks)


def _ids(part: Any) -> npt.NDArray[Any] | None:
    given = getattr(part, "n_id", None)
    return None if given is None else _numpy(given)


def _all_or_none(what: str, given: list[npt.NDArray[Any] | None]) -> npt.NDArray[Any] | None:
    found = [array for array in given if array is not None]
    if not found:
        return None
    if len(found) < len(given):
        raise InputError(
            f"the graphs must all have {what} or none, got {len(found)} of {len(given)} with it; "
            "add or remove it"
        )
    return np.concatenate(found)
