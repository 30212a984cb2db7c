"""Small products inside compiled kernels: register tiles of vectors, and what is built of them.

A kernel that aggregates rows and projects them at once has many products too small for a library: a
call costs more than the product. LLVM does not keep a tile of sums in registers by itself, so these few
operations say so. A tile is a tuple of vectors; `left` is how many columns are left from the offset on,
and columns beyond it are neither read nor written. Offsets and strides count elements. Slow twins:
tests/compute/test_tile_kernels.py.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.datamodel.models import PrimitiveModel
from numba.extending import intrinsic, register_model

# Elements of a vector: what fills a register with float32. Sums are ordered by it, so bits depend on it.
LANES = 16 if llvm.get_host_cpu_features().get("avx512f", False) else 8
_ROWS = LANES // 2  # of a product's tile of LANES vectors: half the registers of either kind of machine
_DEPTH = 256  # terms of a product at once: their part of b then fits the nearest cache

_I1, _I32, _I64 = ir.IntType(1), ir.IntType(32), ir.IntType(64)


class Vector(types.Type):
    """LANES numbers in a register."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        super().__init__(name=f"vector({LANES} x {dtype})")


@register_model(Vector)
class _VectorModel(PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        element = manager.lookup(kind.dtype).get_value_type()
        super().__init__(manager, kind, ir.VectorType(element, LANES))


class _Emit:
    """Writes LLVM for vectors of one array's element type."""

    def __init__(self, context: Any, builder: Any, dtype: Any) -> None:
        self.context, self.builder = context, builder
        self.element = context.get_value_type(dtype)
        self.bytes = dtype.bitwidth // 8
        self.vector = ir.VectorType(self.element, LANES)
        self.name = f"v{LANES}f{dtype.bitwidth}"
        self.mask_type = ir.VectorType(_I1, LANES)
        self.zero = ir.Constant(self.vector, None)

    def call(self, name: str, result: Any, *args: Any, **options: Any) -> Any:
        kind = ir.FunctionType(result, [a.type for a in args])
        return self.builder.call(
            cgutils.get_or_insert_function(self.builder.module, kind, name), args, **options
        )

    def integer(self, value: Any, kind: Any) -> Any:
        return self.context.cast(self.builder, value, kind, types.int64)

    def place(self, kind: Any, array: Any, offset: Any) -> Any:
        data = self.context.make_array(kind)(self.context, self.builder, array).data
        return self.builder.gep(data, [offset])

    def splat(self, scalar: Any, vector: Any) -> Any:
        first = self.builder.insert_element(ir.Constant(vector, ir.Undefined), scalar, ir.Constant(_I32, 0))
        return self.builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(_I32, LANES), [0] * LANES))

    def mask(self, left: Any, number: int) -> Any:
        """Which lanes of the tile's column of vectors `number` are within `left`."""
        wide = ir.VectorType(_I64, LANES)
        lanes = ir.Constant(wide, [number * LANES + i for i in range(LANES)])
        return self.builder.icmp_signed("<", lanes, self.splat(left, wide))

    def load(self, pointer: Any, mask: Any) -> Any:
        pointer = self.builder.bitcast(pointer, self.vector.as_pointer())
        align = ir.Constant(_I32, self.bytes)
        return self.call(f"llvm.masked.load.{self.name}.p0", self.vector, pointer, align, mask, self.zero)

    def store(self, value: Any, pointer: Any, mask: Any) -> None:
        pointer = self.builder.bitcast(pointer, self.vector.as_pointer())
        align = ir.Constant(_I32, self.bytes)
        self.call(f"llvm.masked.store.{self.name}.p0", ir.VoidType(), value, pointer, align, mask)

    def fma(self, a: Any, b: Any, c: Any) -> Any:
        return self.call(f"llvm.fma.{self.name}", self.vector, a, b, c)

    def vectors(self, tile: Any, count: int) -> list[Any]:
        return [self.builder.extract_value(tile, i) for i in range(count)]

    def tile(self, kind: Any, vectors: list[Any]) -> Any:
        return self.context.make_tuple(self.builder, kind, vectors)


@intrinsic(prefer_literal=True)  # type: ignore[untyped-decorator]
def zeros(typing_context: Any, array: Any, count: Any) -> Any:
    """A tile of `count` (a constant) vectors of zeros, of `array`'s type."""
    result = types.UniTuple(Vector(array.dtype), count.literal_value)  # type: ignore[attr-defined]

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        emit = _Emit(context, builder, array.dtype)
        return emit.tile(result, [emit.zero] * result.count)

    return result(array, count), generate


@intrinsic  # type: ignore[untyped-decorator]
def outer_add(
    typing_context: Any, tile: Any, a: Any, a_offset: Any, a_stride: Any, b: Any, b_offset: Any, left: Any
) -> Any:
    """tile[i, :] + a[a_offset + i * a_stride] * b[b_offset:]; a row of the tile is two vectors."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        emit = _Emit(context, builder, b.dtype)
        at, stride, from_, rest = (emit.integer(args[i], signature.args[i]) for i in (2, 3, 5, 6))
        loads = []
        for number in range(2):
            place = builder.add(from_, ir.Constant(_I64, number * LANES))
            loads.append(emit.load(emit.place(b, args[4], place), emit.mask(rest, number)))
        sums = emit.vectors(args[0], tile.count)
        for row in range(tile.count // 2):
            place = builder.add(at, builder.mul(stride, ir.Constant(_I64, row)))
            factor = emit.splat(builder.load(emit.place(a, args[1], place)), emit.vector)
            for number in range(2):
                sums[2 * row + number] = emit.fma(factor, loads[number], sums[2 * row + number])
        return emit.tile(tile, sums)

    return tile(tile, a, a_offset, a_stride, b, b_offset, left), generate


@intrinsic  # type: ignore[untyped-decorator]
def inner_add(
    typing_context: Any, tile: Any, a: Any, a_offset: Any, a_stride: Any, b: Any, b_offset: Any, left: Any
) -> Any:
    """tile[i] + a[a_offset + i * a_stride:] * b[b_offset:], lane by lane; a row of the tile is one vector."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        emit = _Emit(context, builder, b.dtype)
        at, stride, from_, rest = (emit.integer(args[i], signature.args[i]) for i in (2, 3, 5, 6))
        mask = emit.mask(rest, 0)
        shared = emit.load(emit.place(b, args[4], from_), mask)
        sums = emit.vectors(args[0], tile.count)
        for row in range(tile.count):
            place = builder.add(at, builder.mul(stride, ir.Constant(_I64, row)))
            sums[row] = emit.fma(emit.load(emit.place(a, args[1], place), mask), shared, sums[row])
        return emit.tile(tile, sums)

    return tile(tile, a, a_offset, a_stride, b, b_offset, left), generate


@intrinsic  # type: ignore[untyped-decorator]
def put_sums(typing_context: Any, tile: Any, out: Any, offset: Any) -> Any:
    """out[offset + i] = the sum of the lanes of tile[i]."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        emit = _Emit(context, builder, out.dtype)
        start, zero = emit.integer(args[2], offset), ir.Constant(emit.element, 0.0)
        for i, vector in enumerate(emit.vectors(args[0], tile.count)):
            name = f"llvm.vector.reduce.fadd.{emit.name}"
            total = emit.call(name, emit.element, zero, vector, fastmath=("reassoc",))
            builder.store(total, emit.place(out, args[1], builder.add(start, ir.Constant(_I64, i))))
        return context.get_dummy_value()

    return types.void(tile, out, offset), generate


def _put(add: bool) -> Any:
    def put(typing_context: Any, tile: Any, out: Any, offset: Any, stride: Any, left: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            emit = _Emit(context, builder, out.dtype)
            start, step, rest = (emit.integer(args[i], signature.args[i]) for i in (2, 3, 4))
            masks = [emit.mask(rest, number) for number in range(2)]
            for i, vector in enumerate(emit.vectors(args[0], tile.count)):
                place = builder.add(start, builder.mul(step, ir.Constant(_I64, i // 2)))
                place = builder.add(place, ir.Constant(_I64, i % 2 * LANES))
                pointer = emit.place(out, args[1], place)
                value = builder.fadd(emit.load(pointer, masks[i % 2]), vector) if add else vector
                emit.store(value, pointer, masks[i % 2])
            return context.get_dummy_value()

        return types.void(tile, out, offset, stride, left), generate

    return put


put_rows = intrinsic(_put(add=False))  # out[offset + i * stride:] = tile[i, :]
add_rows = intrinsic(_put(add=True))  # out[offset + i * stride:] += tile[i, :]


@numba.njit(inline="always")
def _panel(tile, a, a_at, panel, terms):  # type: ignore[no-untyped-def]
    for k in range(terms):
        tile = outer_add(tile, a, a_at[0] + k * a_at[2], a_at[1], panel, k * 2 * LANES, 2 * LANES)
    return tile


@numba.njit(inline="always")
def _pack(b, b_at, terms, left, panel, one):  # type: ignore[no-untyped-def]
    if b_at[2] == 1:
        for k in range(terms):
            row = outer_add(zeros(b, 2), one, 0, 0, b, b_at[0] + k * b_at[1], left)
            put_rows(row, panel, k * 2 * LANES, 0, 2 * LANES)
        return
    flat = b.ravel()
    for c in range(2 * LANES):  # b lies transposed: read along its rows, write down the panel's columns
        for k in range(terms):
            panel[k * 2 * LANES + c] = flat[b_at[0] + c * b_at[2] + k * b_at[1]] if c < left else 0


@numba.njit(nogil=True, cache=True)
def tiled_product(a, a_at, b, b_at, shape, out, out_at, add):  # type: ignore[no-untyped-def]
    """out [m, n] = a [m, k] times b [k, n], shape = (m, k, n), all within larger arrays; `add`: out += it.

    a_at = (offset, stride of m, stride of k), b_at = (offset, stride of k, stride of n),
    out_at = (offset, stride of m).
    """
    m, terms, n = shape
    whole = m - m % _ROWS
    panel = np.empty(min(terms, _DEPTH) * 2 * LANES, a.dtype)
    one = np.ones(1, a.dtype)
    for k in range(0, max(terms, 1), _DEPTH):  # an empty sum is zero, and is written
        depth, more = min(_DEPTH, terms - k), add or k > 0
        for c in range(0, n, 2 * LANES):
            # Rows of b that lie far apart fall on the same few places of a cache.
            _pack(b, (b_at[0] + k * b_at[1] + c * b_at[2], *b_at[1:]), depth, n - c, panel, one)
            for r in range(0, whole, _ROWS):
                a_here = (a_at[0] + r * a_at[1] + k * a_at[2], a_at[1], a_at[2])
                tile = _panel(zeros(a, LANES), a, a_here, panel, depth)
                _give(tile, out, out_at[0] + r * out_at[1] + c, out_at[1], n - c, more)
            for r in range(whole, m):
                a_here = (a_at[0] + r * a_at[1] + k * a_at[2], a_at[1], a_at[2])
                row = _panel(zeros(a, 2), a, a_here, panel, depth)
                _give(row, out, out_at[0] + r * out_at[1] + c, out_at[1], n - c, more)


@numba.njit(inline="always")
def _give(tile, out, offset, stride, left, add):  # type: ignore[no-untyped-def]
    if add:
        add_rows(tile, out, offset, stride, left)
    else:
        put_rows(tile, out, offset, stride, left)
