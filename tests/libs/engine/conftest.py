from collections.abc import Iterator

import pytest
import torch
from tests.libs.engine import engine_running
from tests.libs.engine.remembered_choices import remember_choices

from headrace.engine.kernels.choice.candidates import candidates, verdicts_here
from headrace.engine.kernels.library import INSTRUCTIONS_VARIABLE


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def _measured_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        remember_choices(patch)
        yield


@pytest.fixture
def fresh_candidates(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Has the instruction sets tested again, for this test alone; none is asked for, whichever the run asks for."""
    monkeypatch.delenv(INSTRUCTIONS_VARIABLE, raising=False)
    for known in (candidates, verdicts_here):
        known.cache_clear()
    yield
    for known in (candidates, verdicts_here):
        known.cache_clear()


@pytest.fixture(params=["auto", "torch"])
def each_kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Runs a test through the fused kernels where they can run its model, and operation by operation. On demand also as
    on a machine without kernels (rows), and as on a GPU (device)."""
    kernels: str = request.param
    if kernels == "rows":
        engine_running.without_kernels(monkeypatch)
    elif kernels == "device":
        engine_running.as_on_a_gpu(monkeypatch)
    else:
        monkeypatch.setitem(engine_running.DEFAULTS, "kernels", kernels)
    return kernels
