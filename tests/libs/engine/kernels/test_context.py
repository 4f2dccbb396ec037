"""A context that is refused leaves nothing behind."""

from pathlib import Path

import pytest
from tests.libs.engine.needed_kernels import needs_kernels

from headrace.engine.kernels.context import KernelContext
from headrace.engine.kernels.library import Instructions, available

pytestmark = needs_kernels
THREADS = Path("/proc/self/task")


@pytest.mark.skipif(not THREADS.exists(), reason="the system does not list threads there; to run it: Linux")
def test_a_refused_context_starts_no_threads() -> None:
    """No machine has the sets of two architectures."""
    missing = next(each for each in Instructions if each not in available())
    before = set(THREADS.iterdir())
    with pytest.raises(RuntimeError, match=f"cannot run here: .*{missing.name}"):
        KernelContext(4, missing)
    assert set(THREADS.iterdir()) <= before


def test_a_context_without_threads_is_refused() -> None:
    with pytest.raises(RuntimeError, match="0 threads do not start"):
        KernelContext(0)
