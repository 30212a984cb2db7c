"""Everything that reads a file which somebody else may have written, to be handed whatever bytes there are.

A reader is given bytes, puts them where the file belongs and reads. It may return or raise LRGIError;
anything else is a bug. `benchmarks/fuzz.py` and tests/laws/test_readers.py call them.
"""

import io
import json
import random
import shutil
import struct
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from lrgi.directory import SEAL, checksum, write_sealed
from lrgi.encoder import CONFIG, WEIGHTS, Encoder, verify_encoder
from lrgi.errors import LRGIError
from lrgi.graph.encoding import Column, Encoding
from lrgi.graph.graph import Graph
from lrgi.graph.partition import open_part, save_partition
from lrgi.graph.sinks import FileSink, damaged_ranges
from lrgi.graph.store import open_graph, save_graph, verify_graph
from lrgi.interop.datasets.pickles import check_pickles
from lrgi.interop.export import ExportPlan, export_embedding
from lrgi.interop.export_work import PROGRESS
from lrgi.interop.npz import read_npz
from lrgi.interop.stored_vectors import StoredVectors
from lrgi.interop.tables.read import Wishes, import_tables
from lrgi.layers.make import make_layer
from lrgi.outputs import verify_embedding
from lrgi.report.record import RunRecord, read_record
from lrgi.training.begin import Beginning
from lrgi.training.checkpoint import STATE, Checkpoint, Position, save_position, state_of
from lrgi.training.identity import identity, key_of
from lrgi.training.journal import Moving
from lrgi.training.objective import Infomax
from lrgi.training.optimize import adamw
from lrgi.training.plan import FitPlan
from lrgi.training.resources import Resources
from lrgi.training.run import RECORD, fit_run, open_run
from lrgi.training.run import read_record as read_run
from lrgi.training.verify import problems_of_run

NODES = 12
PLAN = FitPlan(width=4, heads=2, layers=2, batch_size=6, updates=2, expansion=1)
Mutate = Callable[[bytes, random.Random], bytes]


@dataclass(frozen=True)
class Reader:
    """`prepare` fills a folder and returns valid inputs; `read` is given one, or what became of one."""

    prepare: Callable[[Path], list[bytes]]
    read: Callable[[bytes, Path], None]
    mutate: Mutate | None  # what knows the format; None: any change of bytes
    share: float  # of the fuzzer's inputs, by how fast it is


def refused(reader: Reader, data: bytes, folder: Path) -> bool:
    """Read it; whether it was refused with a sentence. Everything but LRGIError goes on upwards."""
    try:
        reader.read(data, folder)
        return False
    except LRGIError as error:
        sentence = str(error)
        if not (" must " in sentence and ", got " in sentence and "; " in sentence):
            raise AssertionError(f"no sentence of ours: {sentence!r}") from error
        return True


@cache
def graph() -> Graph:
    """With everything that a graph can have."""
    rng = np.random.default_rng(0)
    edges = np.array([rng.integers(0, NODES, 40), rng.integers(0, NODES, 40)]) // 6 * 6
    edges = edges + np.array([rng.integers(0, 6, 40), rng.integers(0, 6, 40)])
    edges[1] = edges[0] // 6 * 6 + edges[1] % 6
    columns = (Column("age", "number", 1.0, 2.0, missing=True), Column("kind", "category", values=("a",)))
    bare = Graph.from_edges(
        edges, rng.normal(size=(NODES, 3)).astype(np.float32), labels=np.arange(NODES) % 3,
        split=np.arange(NODES) % 4, ids=[f"n{i}" for i in range(NODES)], offsets=[0, 6, 12],
    )  # fmt: skip
    return replace(bare, encoding=Encoding(columns))


@cache
def encoder() -> Encoder:
    return Encoder([make_layer("gat", 3, 4, heads=2), make_layer("sage", 4, 4)], {"fit_on": "all"})


# --- JSON -------------------------------------------------------------------------------------------------

STRANGE: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2**31, 2**60, 2**63, -(2**63) - 1, 10**400, 0.5, 1e308, float("nan"),
    float("inf"), "", ".", "..", "../x", "/etc/passwd", "a/b", "\0", "é\ud800", "x" * 5000, "<f8", "|O",
    "<U9", [], {}, [[]], [None], [1, 2], [-1], [2**62, 2**62], {"": None}, {"file": "../x"}, [{}], ["a"],
    "1e9", "NaN",
)  # fmt: skip


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths to everything in a JSON value, the value itself first."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(place for key, entry in items for place in places(entry, (*at, key)))]


def changed(value: Any, at: tuple[Any, ...], new: Any, *, drop: bool = False) -> Any:
    """A copy with something else at a place, or nothing."""
    value = json.loads(json.dumps(value))
    if not at:
        return new
    inner = value
    for key in at[:-1]:
        inner = inner[key]
    if drop:
        del inner[at[-1]]
    else:
        inner[at[-1]] = new
    return value


def mutate_json(data: bytes, rng: random.Random) -> bytes:
    """Something strange in place of something in it; or any change of bytes."""
    try:
        value = json.loads(data)
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            at = rng.choice(places(value))
            old = value
            for key in at:
                old = old[key]
            new = rng.choice(STRANGE)
            if isinstance(old, int) and rng.random() < 0.5:
                new = old + rng.choice((-1, 1, 7, 2**31))
            value = changed(value, at, new, drop=bool(at) and rng.random() < 0.2)
        return json.dumps(value).encode("utf-8", "surrogatepass")
    except (ValueError, RecursionError, KeyError, TypeError, IndexError):
        return mutate_bytes(data, rng)


def mutate_bytes(data: bytes, rng: random.Random) -> bytes:
    """Flipped, cut, repeated or strange bytes."""
    out = bytearray(data or b"x")
    for _ in range(rng.choice((1, 1, 2, 5))):
        at, kind = rng.randrange(len(out) or 1), rng.randrange(6)
        if kind == 0 and out:
            out[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            out[at:] = b""
        elif kind == 2:
            out[at:at] = out[at : at + rng.randrange(1, 64)]
        elif kind == 3:
            out[at : at + 8] = struct.pack("<q", rng.choice((-1, 0, 2**31, 2**60, 2**62)))
        elif kind == 4:
            out[at : at + rng.randrange(1, 32)] = b""
        else:
            out[at : at + 1] = rng.choice((b"\0", b"\xff\xfe", b'"', b"\n", b",", b"\xc3\x28", b"1e999"))
        out = out or bytearray(b"x")
    return bytes(out)


def _resealed(path: Path, data: bytes) -> None:
    """Write it as it is; and if it is an object, with a seal that is right."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        value = None
    path.write_bytes(data)
    if isinstance(value, dict) and SEAL in value:
        with suppress(UnicodeEncodeError):
            write_sealed(path, value)


def _unsealed(path: Path) -> bytes:
    return path.read_bytes()


# --- readers ----------------------------------------------------------------------------------------------


def _npz(folder: Path) -> list[bytes]:
    made = graph()
    receiver = np.repeat(np.arange(NODES), made.degrees())
    masks = {f"{name}_mask": made.split == at for at, name in enumerate(("train", "val", "test"), 1)}
    arrays = {"edge_index": np.stack([made.indices, receiver]), "y": made.labels, **masks}
    found = []
    sparse = {"x_indptr": np.arange(NODES + 1), "x_indices": np.zeros(NODES, np.int32),
              "x_data": np.ones(NODES, np.float32), "x_shape": np.array([NODES, 3])}  # fmt: skip
    for more, save in (
        ({"x": made.features.array}, np.savez), ({"x": made.features.array}, np.savez_compressed),
        (sparse, np.savez), ({"x": made.features.array, "graph_id": np.arange(NODES) // 6}, np.savez),
    ):  # fmt: skip
        file = io.BytesIO()
        save(file, **arrays, **more)
        found.append(file.getvalue())
    return found


def _read_npz(data: bytes, folder: Path) -> None:
    (folder / "g.npz").write_bytes(data)
    read_npz(folder / "g.npz").check()


def mutate_npz(data: bytes, rng: random.Random) -> bytes:
    """Half of the time what lies in one of its arrays, packed again with right checksums."""
    try:
        if rng.random() < 0.3:
            return mutate_bytes(data, rng)
        out = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(data)) as given, zipfile.ZipFile(out, "w") as made:
            chosen = rng.choice(given.namelist())
            for name in given.namelist():
                inner = given.read(name)
                if name == chosen:
                    if rng.random() < 0.1:
                        continue
                    inner = mutate_npy(inner, rng)
                made.writestr(name, inner)
        return out.getvalue()
    except Exception:  # it is no zip any more
        return mutate_bytes(data, rng)


def mutate_npy(data: bytes, rng: random.Random) -> bytes:
    """Its header, or its values."""
    end = data.find(b"\n") + 1
    if rng.random() < 0.5 or not end:
        return mutate_bytes(data, rng)
    head = data[10:end].decode("latin-1").rstrip()
    part = rng.choice(("'descr': '", "'shape': (", "'fortran_order': "))
    at = head.find(part) + len(part)
    stop = min(x for x in (head.find(c, at) for c in "',)") if x >= 0) if at >= len(part) else at
    new = rng.choice(("|O", "<f8", ">i4", "<i8", "<U3", "|b1", "<c16", "<M8[s]", "2", "0", "-1",
                      "99999999999", "1152921504606846976", "True", "1,2,3", "|V8", "<f2", ""))  # fmt: skip
    head = head[:at] + new + head[stop:]
    body = head.encode("latin-1") + b"\n"
    return data[:6] + b"\x01\x00" + struct.pack("<H", len(body) & 0xFFFF) + body + data[end:]


def _graph(folder: Path) -> list[bytes]:
    save_graph(graph(), folder / "graph", overwrite=True)
    return [_unsealed(folder / "graph" / "manifest.json")]


def _read_manifest(data: bytes, folder: Path) -> None:
    _resealed(folder / "graph" / "manifest.json", data)
    open_graph(folder / "graph")
    verify_graph(folder / "graph")


ARRAYS = ("features", "indptr", "indices", "labels", "split", "ids", "offsets")


def _arrays(folder: Path) -> list[bytes]:
    _graph(folder)
    (folder / "whole.json").write_bytes((folder / "graph" / "manifest.json").read_bytes())
    return [bytes([at]) + (folder / "graph" / f"{key}.npy").read_bytes() for at, key in enumerate(ARRAYS)]


def _read_array(data: bytes, folder: Path) -> None:
    """The first byte says of which array of the graph the rest are."""
    key = ARRAYS[data[0] % len(ARRAYS)] if data else "features"
    place, file = folder / "graph", folder / "graph" / f"{key}.npy"
    manifest, good = json.loads((folder / "whole.json").read_text()), file.read_bytes()
    try:
        file.write_bytes(data[1:])
        entry = manifest["arrays"][key] | {"bytes": len(data) - 1, "checksum": checksum(file)}
        shape = data[data.find(b"'shape': (") + 10 :].split(b")")[0].split(b",")
        if all(part.strip().isdigit() for part in shape if part.strip()):
            entry["shape"] = [int(part) for part in shape if part.strip()]
        manifest["arrays"][key] = entry
        write_sealed(place / "manifest.json", manifest)
        open_graph(place)
        verify_graph(place)
    finally:
        file.write_bytes(good)


def mutate_array(data: bytes, rng: random.Random) -> bytes:
    return data[:1] + mutate_npy(data[1:], rng)


def _encoder(folder: Path) -> list[bytes]:
    encoder().save(folder / "encoder")
    return [_unsealed(folder / "encoder" / CONFIG)]


def _read_config(data: bytes, folder: Path) -> None:
    _resealed(folder / "encoder" / CONFIG, data)
    Encoder.load(folder / "encoder").check_columns(graph())
    verify_encoder(folder / "encoder")


def _weights(folder: Path) -> list[bytes]:
    _encoder(folder)
    return [(folder / "encoder" / WEIGHTS).read_bytes()]


def _read_weights(data: bytes, folder: Path) -> None:
    place = folder / "encoder"
    (place / WEIGHTS).write_bytes(data)
    config = json.loads((place / CONFIG).read_text()) | {"weights": checksum(place / WEIGHTS)}
    write_sealed(place / CONFIG, config)
    Encoder.load(place)


def mutate_safetensors(data: bytes, rng: random.Random) -> bytes:
    """Its header as JSON, or any bytes."""
    try:
        size = struct.unpack("<Q", data[:8])[0]
        if rng.random() < 0.3 or size > len(data):
            return mutate_bytes(data, rng)
        head = mutate_json(data[8 : 8 + size], rng)
        return struct.pack("<Q", len(head)) + head + data[8 + size :]
    except struct.error:
        return mutate_bytes(data, rng)


def _snapshot(folder: Path) -> list[bytes]:
    layer = make_layer("gat", 3, 4, heads=2)
    objective = Infomax(PLAN, 1, 4)
    moving = Moving(layer, objective, adamw([*layer.parameters(), *objective.parameters()], PLAN), layer)
    (folder / STATE).mkdir(exist_ok=True)
    save_position(folder / STATE, "key", Position(1, 3, (), {"steps": 0}, 1), state_of(moving))
    (made,) = (folder / STATE).iterdir()
    data = made.read_bytes()
    made.unlink()
    return [data]


def _read_snapshot(data: bytes, folder: Path) -> None:
    """Under a name with the right checksum: what is in it is not to be trusted all the same."""
    state = folder / STATE
    path = state / f"snapshot-7-{blake2b(data, digest_size=16).hexdigest()}.safetensors"
    try:
        path.write_bytes(data)
        keeper = Checkpoint(state, Resources(), "key")
        layer = make_layer("gat", 3, 4, heads=2)
        objective = Infomax(PLAN, 1, 4)
        keeper.resume(1, Moving(layer, objective, adamw([*layer.parameters()], PLAN), layer), 8)
        Beginning.of(folder).put_into(1, layer)
    finally:
        path.unlink(missing_ok=True)


def _run(folder: Path) -> list[bytes]:
    run = fit_run(graph(), PLAN, folder / "run", overwrite=(folder / "run").exists())
    return [_unsealed(run.path / RECORD)]


def _read_run(data: bytes, folder: Path) -> None:
    place = folder / "run"
    _resealed(place / RECORD, data)
    for problem in problems_of_run(place):
        assert " must " in problem, problem
    record = read_run(place)
    key_of(record)
    identity(record)
    open_run(place)


def _embedding(folder: Path) -> list[bytes]:
    found = []
    for kind in ("parquet", "npy", "word2vec"):
        export_embedding(encoder(), graph(), folder / kind, ExportPlan(kind=kind), overwrite=True)
        found.append((folder / kind / "manifest.json").read_bytes())
    return found


def _read_embedding(data: bytes, folder: Path) -> None:
    kind = "parquet" if b"part-0" in data else "word2vec" if b"embeddings.txt" in data else "npy"
    _resealed(folder / kind / "manifest.json", data)
    verify_embedding(folder / kind)
    vectors = StoredVectors(folder / kind)
    for _ in vectors.parts():
        pass
    vectors.places_of(["n1"])


def _progress(folder: Path) -> list[bytes]:
    """Of an export that was broken off."""
    found = []
    for kind in ("parquet", "npy", "word2vec"):
        seen: list[bytes] = []

        def tell(text: str, kind: str = kind, seen: list[bytes] = seen) -> None:
            seen.append((folder / "work" / PROGRESS).read_bytes())

        shutil.rmtree(folder / "work", ignore_errors=True)
        export_embedding(
            encoder(),
            graph(),
            folder / "work",
            ExportPlan(kind=kind, shard_rows=4),
            overwrite=True,
            tell=tell,
        )
        found += seen[-1:]
    return found


def _read_progress(data: bytes, folder: Path) -> None:
    place = folder / "work"
    (place / "manifest.json").unlink(missing_ok=True)
    place.mkdir(exist_ok=True)
    _resealed(place / PROGRESS, data)
    kind = next((k for k in ("parquet", "word2vec") if k.encode() in data), "npy")
    try:
        export_embedding(encoder(), graph(), place, ExportPlan(kind=kind, shard_rows=4))
        verify_embedding(place)
    finally:
        (place / "manifest.json").unlink(missing_ok=True)


def _log(folder: Path) -> list[bytes]:
    with FileSink(folder / "U_1.npy", (6, 2), "of", mapped=True) as sink:
        for start in range(0, 6, 2):
            sink.write(start, np.full((2, 2), start, np.float32))
    return [(folder / "U_1.log").read_bytes()]


def _read_log(data: bytes, folder: Path) -> None:
    (folder / "U_1.log").write_bytes(data)
    list(damaged_ranges(folder / "U_1.log"))
    ranges = [(0, 2), (2, 4), (4, 6)]
    with FileSink(folder / "U_1.npy", (6, 2), "of", mapped=True) as sink:
        for start, _ in sink.missing(ranges):
            sink.write(start, np.full((2, 2), start, np.float32))
    table = sink.table().array
    assert table[:, 0].tolist() == [0, 0, 2, 2, 4, 4], "a wrong table without a word"


def _partition(folder: Path) -> list[bytes]:
    save_partition(graph(), np.arange(NODES, dtype=np.int32) // 6, folder / "parts", overwrite=True)
    place = folder / "parts"
    return [(place / "manifest.json").read_bytes(), (place / "part-000" / "part.json").read_bytes()]


def _read_partition(data: bytes, folder: Path) -> None:
    place = folder / "parts"
    files = (place / "manifest.json", place / "part-000" / "part.json")
    good = [file.read_bytes() for file in files]
    file = files[b'"lrgi-part"' in data]
    try:
        _resealed(file, data)
        open_part(place, 0, 2, verify=True)
    finally:
        for file, whole in zip(files, good, strict=True):
            file.write_bytes(whole)


EDGES = b"src,dst,weight\n" + b"".join(b"n%d,n%d,%d\n" % (i, (i * 7 + 1) % 9, i) for i in range(12))
CSV = (
    EDGES,
    b"sep=;\n# said\n" + EDGES.replace(b",", b";"),
    EDGES.replace(b",", b"\t").replace(b"n1\t", b'"n ""1"\t'),
    EDGES.decode().encode("utf-16"),
    b"0 1\n1 2\n2 0\n",
)
PEOPLE = b'id,age,kind,label,split\n' + b"".join(
    b"n%d,%s,%s,%d,%s\n" % (i, (b"na", b"1.5", b"-3")[i % 3], b"ab"[i % 2 : i % 2 + 1], i % 3,
                           (b"train", b"test", b"val")[i % 3]) for i in range(9)
)  # fmt: skip


def _imported(edges: Path, nodes: Path | None, folder: Path) -> None:
    out = folder / "imported"
    made = Wishes(features_from="" if nodes else "degree", memory="256MB", threads=1)
    import_tables(str(edges), out, nodes=None if nodes is None else str(nodes), wishes=made, overwrite=True)
    verify_graph(out)


def _csv(folder: Path) -> list[bytes]:
    (folder / "e.csv").write_bytes(EDGES)
    return [b"e" + text for text in CSV] + [b"n" + PEOPLE]


def _read_csv(data: bytes, folder: Path) -> None:
    """The first byte says whether these are nodes (n) or edges."""
    if data[:1] == b"n":
        (folder / "n.csv").write_bytes(data[1:])
        (folder / "e.csv").write_bytes(EDGES)
        _imported(folder / "e.csv", folder / "n.csv", folder)
    else:
        (folder / "e.csv").write_bytes(data[1:])
        _imported(folder / "e.csv", None, folder)


def _jsonl(folder: Path) -> list[bytes]:
    rows = [json.dumps({"src": f"n{i}", "dst": i % 3, "w": [1, 2]}).encode() for i in range(6)]
    return [b"\n".join(rows) + b"\n"]


def _read_jsonl(data: bytes, folder: Path) -> None:
    (folder / "e.jsonl").write_bytes(data)
    _imported(folder / "e.jsonl", None, folder)


def _parquet(folder: Path) -> list[bytes]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    (folder / "e.csv").write_bytes(EDGES)
    found = []
    edges = pa.table({"src": [f"n{i}" for i in range(9)], "dst": [f"n{(i * 7 + 1) % 9}" for i in range(9)]})
    lists = pa.array([[float(i), 1.0] for i in range(9)], pa.list_(pa.float32(), 2))
    nodes = pa.table({"id": [f"n{i}" for i in range(9)], "age": [None, *map(float, range(8))], "v": lists,
                      "label": [i % 3 for i in range(9)]})  # fmt: skip
    for first, table in ((b"e", edges), (b"n", nodes)):
        for compression in ("none", "zstd", "snappy"):
            pq.write_table(table, folder / "t.parquet", compression=compression)
            found.append(first + (folder / "t.parquet").read_bytes())
    return found


def _read_parquet(data: bytes, folder: Path) -> None:
    if data[:1] == b"n":
        (folder / "n.parquet").write_bytes(data[1:])
        _imported(folder / "e.csv", folder / "n.parquet", folder)
    else:
        (folder / "e.parquet").write_bytes(data[1:])
        _imported(folder / "e.parquet", None, folder)


def _kept_first(mutate: Mutate) -> Mutate:
    return lambda data, rng: data[:1] + mutate(data[1:], rng)


def _plan(folder: Path) -> list[bytes]:
    return [json.dumps(PLAN.to_mapping()).encode()]


def _read_plan(data: bytes, folder: Path) -> None:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return
    if isinstance(value, dict):
        FitPlan.from_mapping(value)


def _record(folder: Path) -> list[bytes]:
    record = RunRecord("table:t", "c", {"a": 1}, measures={"b": 0.5}, made="now")
    return [json.dumps(record.to_json()).encode()]


def _read_record(data: bytes, folder: Path) -> None:
    (folder / "c.json").write_bytes(data)
    read_record(folder / "c.json")


def _pickles(folder: Path) -> list[bytes]:
    import pickle

    return [pickle.dumps({"a": np.arange(3)}, protocol=p) for p in (0, 2)]


def _read_pickle(data: bytes, folder: Path) -> None:
    (folder / "ind.x").write_bytes(data)
    check_pickles([folder / "ind.x"])


READERS = {
    "npz": Reader(_npz, _read_npz, mutate_npz, 0.8),
    "graph manifest": Reader(_graph, _read_manifest, mutate_json, 0.6),
    "graph array": Reader(_arrays, _read_array, mutate_array, 0.6),
    "graph in parts": Reader(_partition, _read_partition, mutate_json, 0.3),
    "encoder config": Reader(_encoder, _read_config, mutate_json, 0.6),
    "safetensors": Reader(_weights, _read_weights, mutate_safetensors, 1.0),
    "snapshot": Reader(_snapshot, _read_snapshot, mutate_safetensors, 0.4),
    "run record": Reader(_run, _read_run, mutate_json, 0.2),
    "embedding manifest": Reader(_embedding, _read_embedding, mutate_json, 0.6),
    "export in progress": Reader(_progress, _read_progress, mutate_json, 0.05),
    "table log": Reader(_log, _read_log, None, 1.0),
    "settings": Reader(_plan, _read_plan, mutate_json, 1.5),
    "record of results": Reader(_record, _read_record, mutate_json, 1.3),
    "pickles (looked at, never loaded)": Reader(_pickles, _read_pickle, None, 1.2),
    "CSV": Reader(_csv, _read_csv, _kept_first(mutate_bytes), 0.04),
    "JSON lines": Reader(_jsonl, _read_jsonl, None, 0.02),
    "Parquet": Reader(_parquet, _read_parquet, _kept_first(mutate_bytes), 0.04),
}
