import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(params=["auto", "torch"])
def each_kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs a test through the fused kernels, where they can run its model, and through torch."""
    import engine_running

    monkeypatch.setitem(engine_running.DEFAULTS, "kernels", request.param)
