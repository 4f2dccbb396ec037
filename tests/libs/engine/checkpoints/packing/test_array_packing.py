"""Weights are packed, and thus kept, by kernels that passed the self test."""

from typing import Any

import numpy as np
import pytest
from tests.libs.engine.needed_kernels import needs_kernels

from headrace.engine.checkpoints.packing.array_packing import pack_array
from headrace.engine.checkpoints.weights.stored_arrays import StoredArrays
from headrace.engine.kernels.choice import self_test
from headrace.engine.kernels.context import KernelContext
from headrace.engine.kernels.library import Instructions, load_kernels
from headrace.engine.kernels.storage import Storage

pytestmark = [needs_kernels, pytest.mark.usefixtures("fresh_candidates")]


def test_weights_are_rounded_by_a_set_that_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    library: Any = load_kernels()
    rounding, used = library.headrace_pack_rounded, set()

    def record(instructions: Instructions, *arguments: Any) -> int:
        used.add(instructions)
        failure: int = rounding(instructions, *arguments)
        return failure

    def refuse(context: KernelContext) -> str:
        return "" if context.instructions is Instructions.PORTABLE else "the product is off"

    monkeypatch.setattr(self_test, "_compare_with_portable", refuse)
    monkeypatch.setattr(library, "headrace_pack_rounded", record)
    numbers = np.random.default_rng(1).standard_normal((40, 64)).astype(np.float32)
    packed = pack_array(StoredArrays((numbers,), Storage.F32, bits=4, group_size=32))
    assert packed.storage is Storage.U4
    assert used == {Instructions.PORTABLE}
