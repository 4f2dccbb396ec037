"""Triton's interpreter, repaired, and made to run the programs of a grid in another order."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import triton.language as tl
from triton.runtime import interpreter


def prepare() -> None:
    """Repairs the interpreter for as long as this process lives."""
    patch = pytest.MonkeyPatch()
    for repair in (repair_products, repair_bf16, repair_fp8):
        repair(patch)


def repair_products(patch: pytest.MonkeyPatch) -> None:
    """Multiplies in fp64 and rounds once. The interpreter multiplies the bits of bf16 as integers, and leaves the order
    of fp32 sums to a library, which chooses it by the number of rows: on a GPU a row does not see that."""

    def create_dot(self: Any, a: Any, b: Any, d: Any, *_settings: Any) -> Any:
        left, right = (_widened(self, each) for each in (a, b))
        sums = np.matmul(left, right) + d.data
        return interpreter.TensorHandle(sums.astype(d.data.dtype), d.dtype.scalar)

    patch.setattr(interpreter.InterpreterBuilder, "create_dot", create_dot)


def repair_bf16(patch: pytest.MonkeyPatch) -> None:
    """Subtracts and multiplies bf16 in fp32 and cuts the result, which is exact wherever a number of bf16 is. The
    interpreter takes their bits for integers."""
    for name in ("create_fsub", "create_fmul"):
        compute = getattr(interpreter.InterpreterBuilder, name)
        patch.setattr(interpreter.InterpreterBuilder, name, _in_fp32(compute))


def _in_fp32(compute: Callable[..., Any]) -> Callable[..., Any]:
    def compute_wide(self: Any, left: Any, right: Any) -> Any:
        if left.dtype.scalar != tl.bfloat16:
            return compute(self, left, right)
        wide = (
            interpreter.TensorHandle((each.data.astype(np.uint32) << 16).view(np.float32), tl.float32)
            for each in (left, right)
        )
        bits = np.ascontiguousarray(compute(self, *wide).data).view(np.uint32) >> 16
        return interpreter.TensorHandle(bits.astype(np.uint16), tl.bfloat16)

    return compute_wide


def repair_fp8(patch: pytest.MonkeyPatch) -> None:
    """Rounds fp32 to e4m3 as torch does. The interpreter loses the carry into the exponent."""
    create_fp_to_fp = interpreter.InterpreterBuilder.create_fp_to_fp

    def create_rounded(self: Any, source: Any, kind: Any, rounding: Any) -> Any:
        if source.dtype.scalar != tl.float32 or kind.scalar != tl.float8e4nv:
            return create_fp_to_fp(self, source, kind, rounding)
        rounded = torch.from_numpy(np.ascontiguousarray(source.data)).to(torch.float8_e4m3fn)
        return interpreter.TensorHandle(rounded.view(torch.uint8).numpy(), tl.float8e4nv)

    patch.setattr(interpreter.InterpreterBuilder, "create_fp_to_fp", create_rounded)


def _widened(builder: Any, operand: Any) -> Any:
    wide = builder.cast_impl(operand, tl.float32) if operand.dtype.scalar == tl.bfloat16 else operand
    return wide.data.astype(np.float64)


def run_backwards(patch: pytest.MonkeyPatch) -> None:
    """Runs the last program of a grid first. Programs that do not race give the same bits in any order."""
    set_index = interpreter.InterpreterBuilder.set_grid_idx

    def set_mirrored(self: Any, *index: int) -> None:
        mirrored = [size - 1 - place for size, place in zip(self.grid_dim, index, strict=True)]
        set_index(self, *mirrored)

    patch.setattr(interpreter.InterpreterBuilder, "set_grid_idx", set_mirrored)
