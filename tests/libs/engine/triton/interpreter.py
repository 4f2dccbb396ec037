"""Triton's interpreter, repaired, and made to run the programs of a grid in another order."""

from typing import Any

import pytest
import triton.language as tl
from triton.runtime import interpreter


def repair_bf16_products(patch: pytest.MonkeyPatch) -> None:
    """Widens bf16 operands of products, which lose nothing by it."""
    create_dot = interpreter.InterpreterBuilder.create_dot

    def create_wide_dot(self: Any, a: Any, b: Any, d: Any, *settings: Any) -> Any:
        wide = [self.cast_impl(each, tl.float32) if each.dtype.scalar == tl.bfloat16 else each for each in (a, b)]
        return create_dot(self, *wide, d, *settings)

    patch.setattr(interpreter.InterpreterBuilder, "create_dot", create_wide_dot)


def run_backwards(patch: pytest.MonkeyPatch) -> None:
    """Runs the last program of a grid first. Programs that do not race give the same bits in any order."""
    set_index = interpreter.InterpreterBuilder.set_grid_idx

    def set_mirrored(self: Any, *index: int) -> None:
        mirrored = [size - 1 - place for size, place in zip(self.grid_dim, index, strict=True)]
        set_index(self, *mirrored)

    patch.setattr(interpreter.InterpreterBuilder, "set_grid_idx", set_mirrored)
