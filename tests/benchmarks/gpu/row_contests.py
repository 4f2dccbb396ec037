"""Norm and gate of rows: our kernels and torch's."""

from collections.abc import Iterator

import torch
from tests.benchmarks.gpu.contest import OURS, Computation, Contender, Contest
from torch import Tensor
from torch.nn import functional

from headrace.engine.triton.gated_activation import gate_rows
from headrace.engine.triton.residual_norm import normalize
from headrace.planning.roofline import Launch

NORM, GATE = "Root mean square norm", "Gate of SwiGLU"
TORCH = "torch"
EPSILON = 1e-5


def list_rows(hidden_size: int, inner_size: int, counts: tuple[int, ...], device: torch.device) -> Iterator[Contest]:
    """Makes a contest for each number of rows of a norm over `hidden_size` and of a gate of `inner_size`, in bf16."""
    weight = torch.rand(hidden_size, generator=torch.Generator().manual_seed(0)).to(device, torch.bfloat16)
    for count in counts:
        rows, halves = (_rows(count, size, device) for size in (hidden_size, 2 * inner_size))
        yield _norm(rows, weight)
        yield _gate(halves)


def _norm(rows: Tensor, weight: Tensor) -> Contest:
    size = rows.shape[1:]
    return _contest(
        NORM,
        rows,
        3.0 * rows.numel(),
        rows.numel(),
        lambda: functional.rms_norm(rows.float(), size, weight.float(), EPSILON),
        lambda: normalize(rows, weight, EPSILON),
        lambda: functional.rms_norm(rows, size, weight, EPSILON),
    )


def _gate(rows: Tensor) -> Contest:
    gates, factors = rows.chunk(2, dim=-1)
    return _contest(
        GATE,
        rows,
        5.0 * rows.numel(),
        rows.numel() // 2,
        lambda: functional.silu(gates.float()) * factors.float(),
        lambda: gate_rows(rows, "silu"),
        lambda: functional.silu(gates) * factors,
    )


def _contest(
    kind: str,
    rows: Tensor,
    operations: float,
    output_count: int,
    expected: Computation,
    ours: Computation,
    theirs: Computation,
) -> Contest:
    launch = Launch((rows.numel() + output_count) * rows.itemsize, operations)
    contenders = (Contender(OURS, lambda: ours, launch), Contender(TORCH, lambda: theirs, launch))
    return Contest(kind, f"{rows.shape[1]} wide", len(rows), "float32", expected, contenders)


def _rows(count: int, size: int, device: torch.device) -> Tensor:
    generator = torch.Generator().manual_seed(count + size)
    return torch.randn(count, size, generator=generator).to(device, torch.bfloat16)
