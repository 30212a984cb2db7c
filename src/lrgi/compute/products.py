"""Matrix products of a layer or predictor: y = x W^T + b, optionally followed by ReLU.

On x86 CPUs torch sends float32 products to MKL, which does not use AVX-512 on AMD machines and there
reaches less than half of what oneDNN does; torch ships both. So products go to oneDNN where torch
exposes it and to `torch.nn.functional.linear` elsewhere (CUDA, float64, other builds). oneDNN cuts
the rows and columns of the result among threads and never its sums, so the thread count does not
change the bits (tests/compute/test_products.py).

Under `torch.autocast(..., dtype=torch.bfloat16)` operands are rounded to bf16 and sums stay float32.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, *, relu: bool = False) -> Tensor:
    """`x` [M, d] times `weight` [D, d] transposed, plus `bias` [D]; float32 (or float64) [M, D]."""
    kind = x.device.type
    bf16 = torch.is_autocast_enabled(kind) and torch.get_autocast_dtype(kind) == torch.bfloat16
    if x.dtype == torch.float64 or (kind != "cpu" and not bf16):
        y = functional.linear(x, weight, bias)
        return functional.relu(y) if relu else y
    result: Tensor = _Linear.apply(x, weight, bias, relu, bf16)  # type: ignore[no-untyped-call]
    return result


def matmul(a: Tensor, b: Tensor) -> Tensor:
    """`a` [M, k] times `b` [k, N] in full precision, without a gradient of its own."""
    if _onednn(a, b):
        result: Tensor = torch.ops.mkldnn._linear_pointwise(a, b.t(), None, "none", [], "")
        return result
    return a @ b


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, relu: bool, bf16: bool
    ) -> Tensor:
        if bf16:
            x, weight = x.bfloat16(), weight.bfloat16()
        y = _affine(x, weight, bias, relu)
        ctx.save_for_backward(x, weight, y if relu else None)
        ctx.has_bias, ctx.relu = bias is not None, relu
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, y = ctx.saved_tensors
        if ctx.relu:
            grad = torch.ops.aten.threshold_backward(grad, y, 0)
        needs_x, needs_weight, needs_bias = ctx.needs_input_grad[:3]
        d_bias = grad.sum(0) if ctx.has_bias and needs_bias else None
        grad = grad.to(x.dtype)
        d_x = matmul(grad, weight).float() if needs_x else None
        d_weight = matmul(grad.t(), x).float() if needs_weight else None
        return d_x, d_weight, d_bias, None, None


def _affine(x: Tensor, weight: Tensor, bias: Tensor | None, relu: bool) -> Tensor:
    if _onednn(x, weight):
        narrow = bias if bias is None else bias.to(x.dtype)
        attr = "relu" if relu else "none"
        y: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, narrow, attr, [], "")
        return y.float()
    y = functional.linear(x, weight, bias if bias is None else bias.to(x.dtype)).float()
    return functional.relu(y) if relu else y


def _onednn(a: Tensor, b: Tensor) -> bool:
    """Whether torch can hand this product to oneDNN; empty operands and other types go the usual way."""
    return (
        a.device.type == "cpu"
        and a.dtype in (torch.float32, torch.bfloat16)
        and a.numel() > 0
        and b.numel() > 0
        and torch.backends.mkldnn.is_available()
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    )
