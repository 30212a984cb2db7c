"""Products whose operands are rounded to bf16 and whose sums are float32, where a processor has AMX.

A tile register holds 16 rows of 64 bytes. Operands are rounded while they are packed: rows of a as they
are multiplied, [16, k]; b in pairs of terms, [k / 2, columns, 2]. Four sums of 16 x 16 are kept at once.
Slow twin: tests/compute/test_tile_kernels.py, numpy on rounded operands.
"""

from __future__ import annotations

import ctypes
import platform
from functools import lru_cache
from typing import Any

import llvmlite.binding as llvm
import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from lrgi.compute._tile_kernels import LANES, _Emit, turn, upper_halves

_FEATURES = llvm.get_host_cpu_features()
HAS_AMX = LANES == 16 and _FEATURES.get("amx-bf16", False)  # the processor; see `amx_allowed`

_SIDE = 32  # of a block of sums: two tile registers each way
_TERMS = 32  # of a tile register: 64 bytes of bf16
_DEPTH = 512  # terms at once
_HEIGHT = 512  # rows of a at once

_I8, _I32, _I64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
_CONFIG = np.zeros(64, np.uint8)
_CONFIG[0] = 1  # palette
_CONFIG[16:32:2] = 64  # bytes in a row of each of the eight registers
_CONFIG[48:56] = 16  # rows


@lru_cache(maxsize=1)
def amx_allowed() -> bool:
    """Ask Linux for the tile registers, as every process must; False where they are not to be had."""
    if not HAS_AMX or platform.system() != "Linux" or platform.machine() != "x86_64":
        return False
    arch_prctl, request, tile_data = 158, 0x1023, 18
    return int(ctypes.CDLL(None).syscall(arch_prctl, request, tile_data)) == 0


@intrinsic
def _round_row(typing_context: Any, a: Any, offset: Any, left: Any, out: Any, out_offset: Any) -> Any:
    """out[out_offset:][:LANES] (uint16) = a[offset:] rounded; zeros from `left` on."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        emit = _Emit(context, builder, a.dtype)
        at, rest, to = (emit.integer(args[i], signature.args[i]) for i in (1, 2, 4))
        halves = upper_halves(builder, emit.load(emit.place(a, args[0], at), emit.mask(rest, 0)))
        short = ir.VectorType(ir.IntType(16), LANES)
        pointer = builder.bitcast(emit.place(out, args[3], to), short.as_pointer())
        builder.store(builder.trunc(halves, short), pointer).align = 2
        return context.get_dummy_value()

    return types.void(a, offset, left, out, out_offset), generate


@intrinsic
def _round_pair(
    typing_context: Any, b: Any, offset: Any, stride: Any, left: Any, out: Any, out_offset: Any
) -> Any:
    """out[out_offset:][:LANES] (float32, for its bits) = pairs of b[offset:] and b[offset + stride:].

    left = (columns there are, terms there are): what is beyond is zero.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        emit = _Emit(context, builder, b.dtype)
        at, step, to = (emit.integer(args[i], signature.args[i]) for i in (1, 2, 5))
        columns, terms = (
            emit.integer(builder.extract_value(args[3], i), signature.args[3][i]) for i in range(2)
        )
        halves = []
        for term in range(2):
            there = builder.icmp_signed("<", ir.Constant(_I64, term), terms)
            mask = emit.mask(builder.select(there, columns, ir.Constant(_I64, 0)), 0)
            place = builder.add(at, builder.mul(step, ir.Constant(_I64, term)))
            halves.append(upper_halves(builder, emit.load(emit.place(b, args[0], place), mask)))
        high = builder.shl(halves[1], ir.Constant(halves[1].type, [16] * LANES))
        pairs = builder.bitcast(builder.or_(halves[0], high), emit.vector)
        emit.store(pairs, emit.place(out, args[4], to), emit.mask(ir.Constant(_I64, LANES), 0))
        return context.get_dummy_value()

    return types.void(b, offset, stride, left, out, out_offset), generate


def _amx(emit: Any, name: str, *args: Any) -> None:
    constants = [ir.Constant(_I8, a) if isinstance(a, int) else a for a in args]
    emit.call(f"llvm.x86.{name}", ir.VoidType(), *constants)


@intrinsic
def _configure(typing_context: Any, config: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        emit = _Emit(context, builder, types.float32)
        _amx(emit, "ldtilecfg", emit.place(config, args[0], ir.Constant(_I64, 0)))
        return context.get_dummy_value()

    return types.void(config), generate


@intrinsic
def _release(typing_context: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _amx(_Emit(context, builder, types.float32), "tilerelease")
        return context.get_dummy_value()

    return types.void(), generate


@intrinsic
def _block(
    typing_context: Any, a: Any, a_at: Any, panel: Any, terms: Any, out: Any, out_at: Any, add: Any
) -> Any:
    """out [32, 32] at out_at = (offset, stride) = or += a's 32 rows at a_at times the panel, `terms` deep."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        emit = _Emit(context, builder, types.float32)
        pick = lambda which, i: emit.integer(  # noqa: E731
            builder.extract_value(args[which], i), signature.args[which][i]
        )
        number = lambda value: ir.Constant(_I64, value)  # noqa: E731
        bytes_of = lambda kind, place: builder.bitcast(place, _I8.as_pointer())  # noqa: E731
        out_start, out_step = pick(5, 0), pick(5, 1)
        step = builder.mul(out_step, number(4))
        places = []
        for i in range(4):  # sums: registers 0 to 3
            place = builder.add(out_start, builder.mul(out_step, number(16 * (i // 2))))
            places.append(bytes_of(0, emit.place(out, args[4], builder.add(place, number(16 * (i % 2))))))
        with builder.if_else(args[6]) as (more, anew):
            with more:
                for i, place in enumerate(places):
                    _amx(emit, "tileloadd64", i, place, step)
            with anew:
                for i in range(4):
                    _amx(emit, "tilezero", i)
        a_start, a_step = pick(1, 0), pick(1, 1)
        count = builder.udiv(emit.integer(args[3], signature.args[3]), number(_TERMS))
        with cgutils.for_range(builder, count) as loop:
            k = builder.mul(loop.index, number(_TERMS))
            for i in range(2):  # rows of a: registers 4 and 5; columns of b: 6 and 7
                row = builder.add(a_start, builder.mul(a_step, number(16 * i)))
                place = bytes_of(0, emit.place(a, args[0], builder.add(row, k)))
                _amx(emit, "tileloadd64", 4 + i, place, builder.mul(a_step, number(2)))
                at = builder.add(builder.mul(k, number(_SIDE // 2)), number(16 * i))
                _amx(
                    emit, "tileloadd64", 6 + i, bytes_of(0, emit.place(panel, args[2], at)), number(4 * _SIDE)
                )
            for i in range(4):
                _amx(emit, "tdpbf16ps", i, 4 + i // 2, 6 + i % 2)
        for i, place in enumerate(places):
            _amx(emit, "tilestored64", i, place, step)
        return context.get_dummy_value()

    return types.void(a, a_at, panel, terms, out, out_at, add), generate


@numba.njit(inline="always")
def _pack_rows(a, at, steps, counts, rows_, room, turned):
    """rows_[i * room + k] = a[at + i * steps[0] + k * steps[1]] rounded, i and k up to whole blocks."""
    height, terms = counts
    if steps[1] == 1:
        for i in range((height + _SIDE - 1) // _SIDE * _SIDE):
            for k in range(0, room, LANES):
                _round_row(a, at + i * steps[0] + k, terms - k if i < height else 0, rows_, i * room + k)
        return
    for i in range(0, (height + _SIDE - 1) // _SIDE * _SIDE, LANES):
        for k in range(0, room, LANES):
            turn(a, at + i + k * steps[1], steps[1], (terms - k, height - i), turned, 0, LANES)
            for j in range(LANES):
                _round_row(turned, j * LANES, LANES, rows_, (i + j) * room + k)


@numba.njit(inline="always")
def _pack_columns(b, at, steps, counts, panel, room, turned):
    """panel's pairs [k / 2, c] = b[at + k * steps[0] + c * steps[1]] rounded, up to whole blocks."""
    terms, columns = counts
    for c in range(0, _SIDE, LANES):
        if steps[1] == 1:
            for k in range(0, room, 2):
                left = (columns - c, terms - k)
                _round_pair(b, at + k * steps[0] + c, steps[0], left, panel, k // 2 * _SIDE + c)
            continue
        for k in range(0, room, LANES):
            left = (columns - c, terms - k)
            turn(b, at + k + c * steps[1], steps[1], left, turned, 0, LANES)
            for pair in range(0, LANES, 2):
                to = (k + pair) // 2 * _SIDE + c
                _round_pair(turned, pair * LANES, LANES, (LANES, 2), panel, to)


@numba.njit(nogil=True, cache=True)
def amx_product(a, a_at, b, b_at, shape, out, out_at, add):
    """As `tiled_product`, for float32 that is rounded to bf16."""
    m, terms, n = shape
    most = (min(terms, _DEPTH) + _TERMS - 1) // _TERMS * _TERMS
    panel, turned = np.empty(max(most, 1) * _SIDE // 2, np.float32), np.empty(LANES * LANES, np.float32)
    rows_, corner = (
        np.empty((min(m, _HEIGHT) + _SIDE) * max(most, 1), np.uint16),
        np.empty(_SIDE * _SIDE, np.float32),
    )
    _configure(_CONFIG)
    for k in range(0, max(terms, 1), _DEPTH):  # an empty sum is zero, and is written
        depth, more = min(_DEPTH, terms - k), add or k > 0
        room = (depth + _TERMS - 1) // _TERMS * _TERMS
        for top in range(0, m, _HEIGHT):
            height = min(_HEIGHT, m - top)
            where = a_at[0] + top * a_at[1] + k * a_at[2]
            _pack_rows(a, where, a_at[1:], (height, depth), rows_, room, turned)
            for c in range(0, n, _SIDE):
                where = b_at[0] + k * b_at[1] + c * b_at[2]
                _pack_columns(b, where, b_at[1:], (depth, n - c), panel, room, turned)
                for r in range(0, height, _SIDE):
                    to = out_at[0] + (top + r) * out_at[1] + c
                    if height - r >= _SIDE and n - c >= _SIDE:
                        _block(rows_, (r * room, room), panel, room, out, (to, out_at[1]), more)
                        continue
                    _block(rows_, (r * room, room), panel, room, corner, (0, _SIDE), False)
                    flat = out.ravel()
                    for i in range(min(_SIDE, height - r)):
                        for j in range(min(_SIDE, n - c)):
                            place = to + i * out_at[1] + j
                            flat[place] = corner[i * _SIDE + j] + (flat[place] if more else 0)
    _release()
