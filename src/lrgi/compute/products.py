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
    with torch.autocast(a.device.type, enabled=False):
        return a @ b


def head_products(z: Tensor, weight: Tensor) -> Tensor:
    """Per head h, z[h] [M, d] times weight[h] [C, d] transposed, side by side: [M, H * C]."""
    bf16 = torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") == torch.bfloat16
    result: Tensor = _HeadProducts.apply(z, weight, bf16)  # type: ignore[no-untyped-call]
    return result


class _HeadProducts(torch.autograd.Function):
    """One function for all heads, since slicing z would make autograd add up whole tables of zeros."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, weight: Tensor, bf16: bool) -> Tensor:
        if bf16:
            z, weight = z.bfloat16(), weight.bfloat16()
        heads, width, _ = weight.shape
        out = torch.empty(z.shape[1], heads * width, dtype=torch.float32 if bf16 else z.dtype)
        for h in range(heads):
            out[:, h * width : (h + 1) * width] = matmul(z[h], weight[h].t())
        ctx.save_for_backward(z, weight)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        z, weight = ctx.saved_tensors
        heads, width, _ = weight.shape
        per_head = grad.to(z.dtype).view(-1, heads, width).transpose(0, 1)
        d_z = torch.bmm(per_head, weight).to(grad.dtype)
        d_weight = torch.stack([matmul(per_head[h].t(), z[h]) for h in range(heads)])
        return d_z, d_weight.to(grad.dtype), None


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
