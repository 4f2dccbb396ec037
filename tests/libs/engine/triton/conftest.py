"""Kernels run in Triton's interpreter, which has to be chosen before Triton is first imported: those tests have a
process of their own, started by `test_interpreted.py`."""

import os

import pytest

IS_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
IS_THOROUGH = os.environ.get("THOROUGH") == "1"
COMPILED = ["test_compiled.py", "test_interpreted.py", "test_kernel_registry.py"]
INTERPRETED = [
    "attention",
    "test_bounds.py",
    "test_five_services.py",
    "test_quantized_product.py",
    "test_row_kernels.py",
    "test_tokens.py",
]
collect_ignore = COMPILED if IS_INTERPRETED else INTERPRETED


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what only `make test-gpu-kernels` has the minutes for."""
    left_out = [] if IS_THOROUGH else [item for item in items if item.get_closest_marker("thorough")]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in set(left_out)]


@pytest.fixture(autouse=True)
def _repaired(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the interpreter multiply bf16, and each row by itself, and round to fp8."""
    if IS_INTERPRETED:
        from tests.libs.engine.triton.interpreter import repair_fp8, repair_products

        repair_products(monkeypatch)
        repair_fp8(monkeypatch)
