"""Triton's interpreter, repaired, and made to run the programs of a grid in another order."""

from typing import Any

import numpy as np
import pytest
import torch
import triton.language as tl
from triton.runtime import interpreter


def repair_products(patch: pytest.MonkeyPatch) -> None:
    """Multiplies in fp64 and rounds once. The interpreter multiplies the bits of bf16 as integers, and leaves the order
    of fp32 sums to a library, which chooses it by the number of rows: on a GPU a row does not see that."""

    def create_dot(self: Any, a: Any, b: Any, d: Any, *_settings: Any) -> Any:
        left, right = (_widened(self, each) for each in (a, b))
        sums = np.matmul(left, right) + d.data
        return interpreter.TensorHandle(sums.astype(d.data.dtype), d.dtype.scalar)

    patch.setattr(interpreter.InterpreterBuilder, "create_dot", create_dot)


def repair_differences(patch: pytest.MonkeyPatch) -> None:
    """Subtracts bf16 in fp32 and cuts the result, which is exact wherever the difference is. The interpreter subtracts
    the bits of bf16 as integers."""
    create_fsub = interpreter.InterpreterBuilder.create_fsub

    def create_difference(self: Any, left: Any, right: Any) -> Any:
        if left.dtype.scalar != tl.bfloat16:
            return create_fsub(self, left, right)
        wide = (self.cast_impl(each, tl.float32) for each in (left, right))
        return self.cast_impl(create_fsub(self, *wide), tl.bfloat16)

    patch.setattr(interpreter.InterpreterBuilder, "create_fsub", create_difference)


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
