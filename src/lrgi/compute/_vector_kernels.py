"""Arithmetic on single vectors in registers, and the dot products of attention: compiled, LANES wide.

A softmax over the few neighbours of a node is too short for a library and too branchy for LLVM to
vectorise. Here values of four heads lie side by side, LANES / 4 sources in a vector. Slow twins:
tests/compute/test_vector_kernels.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from lrgi.compute._tile_kernels import LANES, Vector, _Emit, upper_halves, zeros

HEADS = 4  # heads that share a vector
SOURCES = LANES // HEADS  # sources in a vector

_I1, _I32, _I64 = ir.IntType(1), ir.IntType(32), ir.IntType(64)


def _lanewise(make: Callable[..., Any]) -> Any:
    """An intrinsic of one, two or three one-vector tiles, or scalars, from its LLVM for vectors."""

    def generator(tile: Any, kinds: tuple[Any, ...]) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            emit = _Emit(context, builder, tile.dtype.dtype)
            values = [
                emit.vectors(value, 1)[0] if kind == tile else value
                for value, kind in zip(args, signature.args, strict=True)
            ]
            return emit.tile(tile, [make(emit, *values)])

        return tile(*kinds), generate

    count = make.__code__.co_argcount - 1
    if count == 1:
        return intrinsic(lambda typing_context, a: generator(a, (a,)))
    if count == 2:
        return intrinsic(lambda typing_context, a, b: generator(a, (a, b)))
    return intrinsic(lambda typing_context, a, b, c: generator(a, (a, b, c)))


def _number(emit: Any, value: float) -> Any:
    return ir.Constant(emit.vector, [ir.Constant(emit.element, value)] * LANES)


def _shuffled(emit: Any, x: Any, pattern: list[int]) -> Any:
    return emit.builder.shuffle_vector(x, x, ir.Constant(ir.VectorType(_I32, LANES), pattern))


def _fold(combine: Callable[..., Any]) -> Callable[..., Any]:
    """Every lane gets what all lanes of its head combine to."""

    def make(emit: Any, x: Any) -> Any:
        step = LANES // 2
        while step >= HEADS:
            x = combine(emit, x, _shuffled(emit, x, [j ^ step for j in range(LANES)]))
            step //= 2
        return x

    return make


def _larger(emit: Any, x: Any, y: Any) -> Any:
    return emit.builder.select(emit.builder.fcmp_ordered(">", x, y), x, y)


def _plus(emit: Any, x: Any, y: Any) -> Any:
    return emit.builder.fadd(x, y)


def _leaky(emit: Any, x: Any, slope: Any) -> Any:
    flat = emit.builder.fmul(x, emit.splat(slope, emit.vector))
    return emit.builder.select(emit.builder.fcmp_ordered(">", x, emit.zero), x, flat)


def _gated(emit: Any, x: Any, sign: Any, slope: Any) -> Any:
    flat = emit.builder.fmul(x, emit.splat(slope, emit.vector))
    return emit.builder.select(emit.builder.fcmp_ordered(">", sign, emit.zero), x, flat)


def _signed(emit: Any, x: Any, sign: Any) -> Any:
    turned = emit.builder.fneg(x)
    return emit.builder.select(emit.builder.fcmp_ordered(">", sign, emit.zero), x, turned)


def _cut(emit: Any, x: Any, left: Any) -> Any:
    minus_infinity = _number(emit, float("-inf"))
    return emit.builder.select(emit.mask(left, 0), x, minus_infinity)


def _exponential(emit: Any, x: Any) -> Any:
    """2^n exp(r) with |r| <= ln 2 / 2 and exp's series as far as the type is exact."""
    builder, double = emit.builder, emit.bytes == 8
    lowest, highest, terms = (-708.0, 709.0, 13) if double else (-87.0, 88.0, 7)
    low, high = _number(emit, lowest), _number(emit, highest)
    x = builder.select(builder.fcmp_ordered("<", x, low), low, x)
    x = builder.select(builder.fcmp_ordered(">", x, high), high, x)
    scaled = builder.fmul(x, _number(emit, 1.4426950408889634))
    n = emit.call(f"llvm.rint.{emit.name}", emit.vector, scaled)
    r = emit.fma(n, _number(emit, -0.693145751953125), x)  # ln 2 in two parts, the first exact
    r = emit.fma(n, _number(emit, -1.4286068203094173e-06), r)
    y, factorial = _number(emit, 0.0), 1.0
    coefficients = [1.0]
    for k in range(1, terms + 1):
        factorial *= k
        coefficients.append(1 / factorial)
    for coefficient in reversed(coefficients):
        y = emit.fma(y, r, _number(emit, coefficient))
    bits = 64 if double else 32
    whole = ir.VectorType(ir.IntType(bits), LANES)
    n = builder.select(builder.fcmp_ordered("ord", n, n), n, emit.zero)  # NaN has no integer, and stays in y
    places, bias = (52, 1023) if double else (23, 127)
    constant = lambda value: ir.Constant(whole, [value] * LANES)  # noqa: E731
    power = builder.add(builder.fptosi(n, whole), constant(bias))
    return builder.fmul(y, builder.bitcast(builder.shl(power, constant(places)), emit.vector))


def _elu(emit: Any, x: Any) -> Any:
    below = emit.builder.fsub(_exponential(emit, x), _number(emit, 1.0))
    return emit.builder.select(emit.builder.fcmp_ordered(">", x, emit.zero), x, below)


def _as_bf16(emit: Any, x: Any) -> Any:
    """The nearest number that bf16 has, ties to even."""
    builder = emit.builder
    single, whole = ir.VectorType(ir.FloatType(), LANES), ir.VectorType(_I32, LANES)
    y = x if emit.bytes == 4 else builder.fptrunc(x, single)
    y = builder.bitcast(builder.shl(upper_halves(builder, y), ir.Constant(whole, [16] * LANES)), single)
    return y if emit.bytes == 4 else builder.fpext(y, emit.vector)


add = _lanewise(_plus)
subtract = _lanewise(lambda emit, x, y: emit.builder.fsub(x, y))
multiply = _lanewise(lambda emit, x, y: emit.builder.fmul(x, y))
divide = _lanewise(lambda emit, x, y: emit.builder.fdiv(x, y))
larger = _lanewise(_larger)
leaky = _lanewise(_leaky)  # x, slope
gated = _lanewise(_gated)  # x where sign > 0, else x * slope
signed = _lanewise(_signed)  # x where sign > 0, else -x
absolute = _lanewise(lambda emit, x: emit.call(f"llvm.fabs.{emit.name}", emit.vector, x))
cut = _lanewise(_cut)  # x in the first `left` lanes, else -inf
exponential = _lanewise(_exponential)
elu = _lanewise(_elu)
as_bf16 = _lanewise(_as_bf16)
fold_larger = _lanewise(_fold(_larger))
fold_sum = _lanewise(_fold(_plus))


@intrinsic
def load(typing_context: Any, array: Any, offset: Any, left: Any) -> Any:
    """array[offset:] as a vector; zeros from `left` on."""
    result = types.UniTuple(Vector(array.dtype), 1)  # type: ignore[attr-defined]

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        emit = _Emit(context, builder, array.dtype)
        at, rest = (emit.integer(args[i], signature.args[i]) for i in (1, 2))
        return emit.tile(result, [emit.load(emit.place(array, args[0], at), emit.mask(rest, 0))])

    return result(array, offset, left), generate


@intrinsic
def store(typing_context: Any, tile: Any, array: Any, offset: Any, left: Any) -> Any:
    """array[offset:] = the vector's first `left` lanes."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        emit = _Emit(context, builder, array.dtype)
        at, rest = (emit.integer(args[i], signature.args[i]) for i in (2, 3))
        (vector,) = emit.vectors(args[0], 1)
        emit.store(vector, emit.place(array, args[1], at), emit.mask(rest, 0))
        return context.get_dummy_value()

    return types.void(tile, array, offset, left), generate


repeated = _lanewise(lambda emit, x: _shuffled(emit, x, [j % HEADS for j in range(LANES)]))


@intrinsic
def cross_add(
    typing_context: Any, tile: Any, a: Any, a_at: Any, table: Any, offsets: Any, at: Any, left: Any
) -> Any:
    """tile[s * HEADS + h] + a[a_at[0] + h * a_at[1]:] * table[offsets[at[0] + s] + at[1]:], lane by lane."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        emit = _Emit(context, builder, table.dtype)
        pick = lambda which, i: emit.integer(  # noqa: E731
            builder.extract_value(args[which], i), signature.args[which][i]
        )
        start, stride, first, k = pick(2, 0), pick(2, 1), pick(5, 0), pick(5, 1)
        mask = emit.mask(emit.integer(args[6], signature.args[6]), 0)
        heads, sources = [], []
        for h in range(HEADS):
            place = builder.add(start, builder.mul(stride, ir.Constant(_I64, h)))
            heads.append(emit.load(emit.place(a, args[1], place), mask))
        for s in range(SOURCES):
            offset = builder.load(emit.place(offsets, args[4], builder.add(first, ir.Constant(_I64, s))))
            sources.append(emit.load(emit.place(table, args[3], builder.add(offset, k)), mask))
        sums = [
            emit.fma(heads[i % HEADS], sources[i // HEADS], vector)
            for i, vector in enumerate(emit.vectors(args[0], LANES))
        ]
        return emit.tile(tile, sums)

    return tile(tile, a, a_at, table, offsets, at, left), generate


@intrinsic
def sums_of(typing_context: Any, tile: Any) -> Any:
    """A vector of the LANES vectors' sums: halves are added and interleaved until one is left."""
    result = types.UniTuple(tile.dtype, 1)  # type: ignore[attr-defined]

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        emit = _Emit(context, builder, tile.dtype.dtype)
        vectors, half = emit.vectors(args[0], LANES), LANES // 2
        pattern = lambda values: ir.Constant(ir.VectorType(_I32, LANES), values)  # noqa: E731
        while half:
            first = pattern([j if not j & half else j - half + LANES for j in range(LANES)])
            second = pattern([j + half if not j & half else j + LANES for j in range(LANES)])
            vectors = [
                builder.fadd(builder.shuffle_vector(x, y, first), builder.shuffle_vector(x, y, second))
                for x, y in zip(vectors[:half], vectors[half:], strict=True)
            ]
            half //= 2
        return emit.tile(result, vectors)

    return result(tile), generate


@numba.njit(inline="always")
def cross_dots(a, a_at, table, offsets, shape, out):
    """out[i * HEADS + h] = a[a_at[0] + h * a_at[1]:] . table[offsets[i]:], shape = (how many i, width).

    `offsets` and `out` have room up to whole vectors, and every offset there may be read.
    """
    count, width = shape
    whole = width - width % LANES
    for i in range(0, count, SOURCES):
        tile = zeros(table, LANES)
        for k in range(0, whole, LANES):  # a constant at the end: no masks are made
            tile = cross_add(tile, a, (a_at[0] + k, a_at[1]), table, offsets, (i, k), LANES)
        if whole < width:
            at = (a_at[0] + whole, a_at[1])
            tile = cross_add(tile, a, at, table, offsets, (i, whole), width - whole)
        store(sums_of(tile), out, i * HEADS, LANES)
