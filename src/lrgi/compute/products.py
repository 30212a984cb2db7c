"""Matrix products of layers and predictors: y = activation(x W^T + b + plus), cut by rows among lanes.

On x86 CPUs torch sends float32 products to MKL, which does not use AVX-512 on AMD machines and there
reaches less than half of what the machine can do. A step's products are small besides, and a library's
call, its copies of transposed operands and its freshly made result cost as much as the arithmetic. So
products are put in place by register tiles (`_product_kernels.py`). Measured by benchmarks/step.py.

Each task takes its rows through product, addition and activation while they are in its core's cache,
and keeps its own partial sum for the weight's gradient (see `threads.py`).

Under `torch.autocast(..., dtype=torch.bfloat16)` operands are rounded to bf16; all sums, outputs and
gradients stay float32. Processors with AMX (`_bf16_kernels.py`) or AVX512-BF16 (`_pair_kernels.py`) have
instructions for it; elsewhere the results are the same but for the order of sums, and no faster.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional

from lrgi.compute._bf16_kernels import HAS_AMX, amx_allowed
from lrgi.compute._pair_kernels import HAS_PAIRS
from lrgi.compute._product_kernels import FULL, ROUNDED, TILED, tiled_product
from lrgi.compute.threads import row_tasks, run_tasks

Activation = Literal["none", "relu", "elu"]

_WORTH_A_TASK = 1024  # rows of a [B, D] view: fewer take less time than waking a lane
_VECTORS = 64  # elements: a multiple of what torch takes at once, on any processor
_CHUNK = 1024  # rows that a task takes at once: a few hundred kB, which a core's own cache holds


def linear(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    plus: Tensor | None = None,
    activation: Activation = "none",
) -> Tensor:
    """activation(x [M, d] times weight [D, d] transposed + bias [D] + plus [M, D]): [M, D]."""
    bf16, x = bf16_products(x.device.type), x.to(weight.dtype)  # torch's own operations may hand over bf16
    if x.device.type != "cpu":
        if bf16:
            y = functional.linear(x, weight, bias).float()
        else:
            y = functional.linear(x, weight, bias)
        return activate(y if plus is None else y + plus, activation)
    result: Tensor = _Linear.apply(x, weight, bias, plus, activation, bf16)  # type: ignore[no-untyped-call]
    return result


def bf16_products(kind: str) -> bool:
    """Whether operands are to be rounded to bf16: inside a bf16 autocast for this kind of device."""
    return torch.is_autocast_enabled(kind) and torch.get_autocast_dtype(kind) == torch.bfloat16


def precision_of(bf16: bool) -> int:
    """How a kernel is to treat operands: rounded to bf16, by the processor's own instructions if it may."""
    if not bf16:
        return FULL
    return TILED if bf16_instructions() else ROUNDED


def bf16_instructions() -> bool:
    """Whether kernels, which are compiled for the processor's best, may use its instructions for bf16."""
    return amx_allowed() if HAS_AMX else HAS_PAIRS


def matmul(a: Tensor, b: Tensor) -> Tensor:
    """a [M, k] times b [k, N] on the calling thread, in the operands' precision; no gradient."""
    if _onednn(a, b):
        result: Tensor = torch.ops.mkldnn._linear_pointwise(a, b.t(), None, "none", [], "")
        return result
    with torch.autocast(a.device.type, enabled=False):
        return a @ b


def product_into(
    out: Tensor,
    a: Tensor,
    b: Tensor,
    *,
    transposed: bool = False,
    b_transposed: bool = False,
    add: bool = False,
    bf16: bool = False,
) -> None:
    """out [m, n] = a [m, k] times b [k, n], or += with `add`.

    `transposed`: a is [k, m]; `b_transposed`: b is [n, k], as a layer keeps its weights. On the
    calling thread; all contiguous and detached, of one float type. `bf16` rounds a and b.
    """
    m, n = out.shape
    terms = b.shape[1] if b_transposed else b.shape[0]
    a_at = (0, 1, m) if transposed else (0, terms, 1)
    b_at = (0, 1, terms) if b_transposed else (0, n, 1)
    tiled_product(
        a.numpy(), a_at, b.numpy(), b_at, (m, terms, n), out.numpy(), (0, n), (add, precision_of(bf16))
    )


def gram(x: Tensor) -> Tensor:
    """x^T x [D, D] for x [M, D], summed over tasks of rows; no gradient."""
    if x.device.type != "cpu":
        return matmul(x.t(), x)
    x, ranges = x.detach().contiguous(), row_tasks(len(x), _WORTH_A_TASK)
    parts = x.new_empty(len(ranges), x.shape[1], x.shape[1])

    def task(i: int) -> None:
        rows = x[ranges[i][0] : ranges[i][1]]
        product_into(parts[i], rows, rows, transposed=True)

    run_tasks(task, len(ranges))
    return add_up(parts)


def by_rows(x: Tensor, b: Tensor) -> Tensor:
    """x [M, k] times b [k, N], cut by rows among lanes; no gradient."""
    if x.device.type != "cpu":
        return matmul(x, b)
    x, b, ranges = x.detach().contiguous(), b.detach().contiguous(), row_tasks(len(x), _WORTH_A_TASK)
    out = x.new_empty(len(x), b.shape[1])

    def task(i: int) -> None:
        rows = slice(*ranges[i])
        product_into(out[rows], x[rows], b)

    run_tasks(task, len(ranges))
    return out


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        plus: Tensor | None,
        activation: Activation,
        bf16: bool,
    ) -> Tensor:
        x, ranges = x.detach().contiguous(), row_tasks(len(x))
        y = torch.empty(len(x), len(weight), dtype=x.dtype)
        operand = weight.detach().contiguous()

        def task(i: int) -> None:
            for rows in chunks(*ranges[i]):
                part = y[rows]
                begun = begin(part, bias, None if plus is None else plus[rows])
                product_into(part, x[rows], operand, b_transposed=True, add=begun, bf16=bf16)
                _activate_(part, activation)

        run_tasks(task, len(ranges))
        ctx.save_for_backward(x, weight, y if activation != "none" else None)
        ctx.given = (bias is not None, plus is not None, activation, bf16)
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, y = ctx.saved_tensors
        x, weight = x.detach(), weight.detach()
        has_bias, has_plus, activation, bf16 = ctx.given
        grad, ranges = grad.detach().contiguous(), row_tasks(len(x))
        d_x = torch.empty_like(x) if ctx.needs_input_grad[0] else None
        d_y = torch.empty_like(grad) if has_plus and activation != "none" else None
        operand = weight.contiguous()
        d_weights = weight.new_empty(len(ranges), *weight.shape)
        d_biases = weight.new_zeros(len(ranges), len(weight))

        def task(i: int) -> None:
            for number, rows in enumerate(chunks(*ranges[i])):
                d = grad[rows]
                if y is not None:
                    d = activation_backward(d, y[rows], activation, None if d_y is None else d_y[rows])
                if d_x is not None:
                    product_into(d_x[rows], d, operand, bf16=bf16)
                product_into(d_weights[i], d, x[rows], transposed=True, add=number > 0, bf16=bf16)
                if has_bias:
                    d_biases[i] += d.sum(0)

        run_tasks(task, len(ranges))
        d_plus = (grad if d_y is None else d_y) if has_plus else None
        return d_x, add_up(d_weights), add_up(d_biases) if has_bias else None, d_plus, None, None


def begin(out: Tensor, bias: Tensor | None, plus: Tensor | None) -> bool:
    """Put what a product is to be added to, bias + plus; False if there is nothing."""
    if bias is not None and plus is not None:
        torch.add(plus, bias, out=out)
    elif bias is not None or plus is not None:
        out.copy_(bias if plus is None else plus)  # type: ignore[arg-type]
    return bias is not None or plus is not None


def activation_backward(grad: Tensor, y: Tensor, activation: Activation, out: Tensor | None = None) -> Tensor:
    """The gradient before the activation, from that behind it and the activation's result y."""
    result = torch.empty_like(y) if out is None else out
    if activation == "relu":
        torch.ops.aten.threshold_backward.grad_input(grad, y, 0, grad_input=result)
    elif activation == "elu":
        torch.ops.aten.elu_backward.grad_input(grad, 1.0, 1.0, 1.0, True, y, grad_input=result)
    else:
        return grad
    return result


def activate(y: Tensor, activation: Activation) -> Tensor:
    """The activation, differentiable."""
    if activation == "none":
        return y
    if activation == "relu":
        return functional.relu(y)
    if y.device.type == "cpu" and not y.requires_grad and y.is_contiguous():
        return _elu(y, inplace=False)
    return functional.elu(y)


def _activate_(y: Tensor, activation: Activation) -> Tensor:
    """In place, y contiguous and detached."""
    if activation == "none":
        return y
    return y.relu_() if activation == "relu" else _elu(y, inplace=True)


def _elu(y: Tensor, *, inplace: bool) -> Tensor:
    """ELU of contiguous numbers, whose bits do not depend on where in y they stand.

    Torch takes a few vectors at a time, and what is left at the end in another way, of other bits.
    """
    left = y.numel() % _VECTORS
    if not left:
        return functional.elu(y, inplace=inplace)
    rest = y.new_zeros(_VECTORS)
    rest[:left] = y.view(-1)[-left:]
    made = functional.elu(y, inplace=inplace)
    made.view(-1)[-left:] = functional.elu(rest)[:left]
    return made


def chunks(start: int, stop: int) -> list[slice]:
    """The rows of a task, a cache's worth at a time."""
    return [slice(a, min(a + _CHUNK, stop)) for a in range(start, max(stop, start + 1), _CHUNK)]


def add_up(parts: Tensor) -> Tensor:
    """The tasks' partial sums, added in their order."""
    for part in parts[1:]:
        parts[0] += part
    return parts[0]


def _onednn(a: Tensor, b: Tensor) -> bool:
    """Whether torch can hand this product to oneDNN; empty operands and other types go the usual way."""
    return (
        a.device.type == "cpu"
        and a.dtype in (torch.float32, torch.bfloat16)
        and a.numel() > 0
        and b.numel() > 0
        and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    )
