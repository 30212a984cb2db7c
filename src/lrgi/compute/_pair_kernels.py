"""Products whose operands are rounded to bf16 and whose sums are float32, on AVX512-BF16 without AMX.

One instruction multiplies 16 pairs of terms and adds both to 16 sums. So panels, once packed, are rounded
in place to pairs of terms, as float32 for their bits; else this is `_product_kernels.tiled_product`.
Slow twin: tests/compute/test_tile_kernels.py, numpy on rounded operands.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from lrgi.compute._panel_kernels import ROWS, WIDE, aligned, give, pack
from lrgi.compute._tile_kernels import LANES, _Emit, zeros
from lrgi.compute._vector_kernels import load, store

HAS_PAIRS = LANES == 16 and llvm.get_host_cpu_features().get("avx512bf16", False)

_DEPTH = 256  # terms at once: as pairs their panel of b fits the nearest cache
_HEIGHT = 512  # rows of a at once

_I64 = ir.IntType(64)


class _BFloat(ir.Type):  # type: ignore[misc]
    """LLVM's bfloat, which llvmlite has no name for."""

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _BFloat)

    def __hash__(self) -> int:
        return hash(_BFloat)


_HALVES = ir.VectorType(_BFloat(), LANES)
_PAIRS = ir.VectorType(_BFloat(), 2 * LANES)


def _pair(typing_context: Any, first: Any, second: Any) -> Any:
    """Both vectors rounded, to nearest even: lane i holds the bits of first[i] and, above, of second[i]."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        emit = _Emit(context, builder, types.float32)
        whole, short = ir.VectorType(ir.IntType(32), LANES), ir.VectorType(ir.IntType(16), LANES)
        low, high = (
            builder.zext(builder.bitcast(builder.fptrunc(emit.vectors(arg, 1)[0], _HALVES), short), whole)
            for arg in args
        )
        both = builder.or_(low, builder.shl(high, ir.Constant(whole, [16] * LANES)))
        return emit.tile(first, [builder.bitcast(both, emit.vector)])

    return first(first, second), generate


pair = intrinsic(_pair)


@intrinsic
def dots_add(typing_context: Any, tile: Any, a: Any, a_offset: Any, b: Any, b_offset: Any) -> Any:
    """tile[i, :] + the pair a[a_offset + i] times pairs b[b_offset:]; a row of the tile is two vectors."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        emit = _Emit(context, builder, b.dtype)
        at, from_ = (emit.integer(args[i], signature.args[i]) for i in (2, 4))
        whole = emit.mask(ir.Constant(_I64, LANES), 0)
        as_pairs = lambda vector: builder.bitcast(vector, _PAIRS)  # noqa: E731
        loads = []
        for number in range(2):
            place = builder.add(from_, ir.Constant(_I64, number * LANES))
            loads.append(as_pairs(emit.load(emit.place(b, args[3], place), whole)))
        sums = emit.vectors(args[0], tile.count)
        for row in range(tile.count // 2):
            place = builder.add(at, ir.Constant(_I64, row))
            factor = as_pairs(emit.splat(builder.load(emit.place(a, args[1], place)), emit.vector))
            for number in range(2):
                given = (sums[2 * row + number], factor, loads[number])
                name = "llvm.x86.avx512bf16.dpbf16ps.512"
                sums[2 * row + number] = emit.call(name, emit.vector, *given)
        return emit.tile(tile, sums)

    return tile(tile, a, a_offset, b, b_offset), generate


@numba.njit(inline="always")
def _to_pairs(panel, at, terms, width):
    """panel[at:] [terms, width] becomes pairs [terms / 2, width]; an odd last term gets a zero beside it."""
    if terms % 2 == 1:
        for c in range(0, width, LANES):
            store(zeros(panel, 1), panel, at + terms * width + c, LANES)
    for k in range(0, terms, 2):
        for c in range(0, width, LANES):
            here = at + k * width + c
            both = pair(load(panel, here, LANES), load(panel, here + width, LANES))
            store(both, panel, at + k // 2 * width + c, LANES)


@numba.njit(nogil=True, cache=True)
def pair_product(a, a_at, b, b_at, shape, out, out_at, add):
    """As `tiled_product`, for float32 that is rounded to bf16."""
    m, terms, n = shape
    most = (min(terms, _DEPTH) + LANES - 1) // LANES * LANES
    panel = aligned(most * WIDE, a)
    rows_ = aligned((min(m, _HEIGHT) + LANES) * most, a)
    one = np.ones(1, a.dtype)
    for k in range(0, max(terms, 1), _DEPTH):  # an empty sum is zero, and is written
        depth, more = min(_DEPTH, terms - k), add or k > 0
        for top in range(0, m, _HEIGHT):
            height = min(_HEIGHT, m - top)
            a_here = a_at[0] + top * a_at[1] + k * a_at[2]
            for r in range(0, height, LANES):
                pack(a, a_here + r * a_at[1], a_at[1:], (height - r, depth), rows_, (r * most, LANES), one)
                _to_pairs(rows_, r * most, depth, LANES)
            for c in range(0, n, WIDE):
                b_here = b_at[0] + k * b_at[1] + c * b_at[2]
                pack(b, b_here, (b_at[2], b_at[1]), (n - c, depth), panel, (0, WIDE), one)
                _to_pairs(panel, 0, depth, WIDE)
                to = out_at[0] + top * out_at[1] + c
                for r in range(0, height, ROWS):
                    from_, tile = r // LANES * LANES * most + r % LANES, zeros(a, LANES)
                    for p in range((depth + 1) // 2):
                        tile = dots_add(tile, rows_, from_ + p * LANES, panel, p * WIDE)
                    give(tile, out, to + r * out_at[1], out_at[1], n - c, height - r, more)
