"""Want of memory is told from all other errors, whoever raises it."""

import pytest
import torch

from headrace.engine.residency.out_of_memory import is_out_of_memory


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError("kernels"), True),
        (torch.OutOfMemoryError("device"), True),
        (
            RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9"),
            True,
        ),
        (RuntimeError("shapes do not fit"), False),
        (ValueError("memory"), False),
    ],
)
def test_errors(error: Exception, expected: bool) -> None:
    assert is_out_of_memory(error) is expected
