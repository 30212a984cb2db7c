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


def upper_halves(builder: Any, x: Any) -> Any:
    """A vector of float32 rounded to bf16, to nearest even, as int32; NaN stays NaN."""
    kind = ir.VectorType(_I32, LANES)
    number = lambda value: ir.Constant(kind, [value] * LANES)  # noqa: E731
    bits = builder.bitcast(x, kind)
    odd = builder.and_(builder.lshr(bits, number(16)), number(1))
    nearest = builder.lshr(builder.add(bits, builder.add(odd, number(0x7FFF))), number(16))
    return builder.select(builder.fcmp_unordered("uno", x, x), number(0x7FC0), nearest)


@intrinsic(prefer_literal=True)
def zeros(typing_context: Any, array: Any, count: Any) -> Any:
    """A tile of `count` (a constant) vectors of zeros, of `array`'s type."""
    result = types.UniTuple(Vector(array.dtype), count.literal_value)  # type: ignore[attr-defined]

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        emit = _Emit(context, builder, array.dtype)
        return emit.tile(result, [emit.zero] * result.count)

    return result(array, count), generate


@intrinsic
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


@intrinsic
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


@intrinsic
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
    def put(typing_context: Any, tile: Any, out: Any, offset: Any, stride: Any, left: Any, rows: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            emit = _Emit(context, builder, out.dtype)
            start, step, rest, count = (emit.integer(args[i], signature.args[i]) for i in (2, 3, 4, 5))
            for i, vector in enumerate(emit.vectors(args[0], tile.count)):
                there = builder.icmp_signed("<", ir.Constant(_I64, i // 2), count)
                mask = emit.mask(builder.select(there, rest, ir.Constant(_I64, 0)), i % 2)
                place = builder.add(start, builder.mul(step, ir.Constant(_I64, i // 2)))
                place = builder.add(place, ir.Constant(_I64, i % 2 * LANES))
                pointer = emit.place(out, args[1], place)
                value = builder.fadd(emit.load(pointer, mask), vector) if add else vector
                emit.store(value, pointer, mask)
            return context.get_dummy_value()

        return types.void(tile, out, offset, stride, left, rows), generate

    return put


put_rows = intrinsic(_put(add=False))  # out[offset + i * stride:] = tile[i, :] for its first `rows` rows
add_rows = intrinsic(_put(add=True))  # out[offset + i * stride:] += tile[i, :]


@intrinsic
def turn(
    typing_context: Any, a: Any, offset: Any, stride: Any, left: Any, out: Any, out_at: Any, out_stride: Any
) -> Any:
    """out[out_at + k * out_stride + i] = a[offset + i * stride + k], i and k < LANES.

    left = (rows, columns) there are in a; what is beyond them is written as zeros.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        emit = _Emit(context, builder, out.dtype)
        at, step, to, out_step = (emit.integer(args[i], signature.args[i]) for i in (1, 2, 5, 6))
        rows, columns = (
            emit.integer(builder.extract_value(args[3], i), signature.args[3][i]) for i in range(2)
        )
        vectors = []
        for i in range(LANES):
            there = builder.icmp_signed("<", ir.Constant(_I64, i), rows)
            mask = emit.mask(builder.select(there, columns, ir.Constant(_I64, 0)), 0)
            place = builder.add(at, builder.mul(step, ir.Constant(_I64, i)))
            vectors.append(emit.load(emit.place(a, args[0], place), mask))
        half = LANES // 2
        while half:  # swap the off-diagonal quarters of ever smaller squares
            first = [j if not j & half else j - half + LANES for j in range(LANES)]
            second = [j + half if not j & half else j + LANES for j in range(LANES)]
            for i in range(LANES):
                if not i & half:
                    x, y = vectors[i], vectors[i + half]
                    vectors[i], vectors[i + half] = (
                        builder.shuffle_vector(x, y, ir.Constant(ir.VectorType(_I32, LANES), pattern))
                        for pattern in (first, second)
                    )
            half //= 2
        whole = emit.mask(ir.Constant(_I64, LANES), 0)
        for k, vector in enumerate(vectors):
            place = builder.add(to, builder.mul(out_step, ir.Constant(_I64, k)))
            emit.store(vector, emit.place(out, args[4], place), whole)
        return context.get_dummy_value()

    return types.void(a, offset, stride, left, out, out_at, out_stride), generate
