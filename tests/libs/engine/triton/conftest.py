"""Kernels run in Triton's interpreter, which has to be chosen before Triton is first imported: those tests have a
process of their own, started by `test_interpreted.py`. Where there is a GPU, most run on it too, marked `gpu`."""

import os

import pytest
import torch
from tests.libs.engine.triton.device import DEVICE, HAS_GPU, IS_INTERPRETED, LAUNCHERS, launched_on

from headrace.engine.triton.kernel_registry import MIN_FP8_CAPABILITY

IS_THOROUGH = os.environ.get("THOROUGH") == "1"
COMPILED = ["test_compiled.py", "test_device.py", "test_interpreted.py", "test_kernel_registry.py", "test_variants.py"]
PRODUCTS = ["test_expert_rows.py", "test_grouped_matmul.py", "test_quantized_product.py"]
ANYWHERE = [*PRODUCTS, "test_row_kernels.py", "test_split_rows.py", "test_token_draw.py", "test_tokens.py"]
"""Tests of the interpreter and of a GPU."""
HAVE_DEVICES = ["test_split_rows.py", "test_tokens.py"]
"""Tests that take their tensors to the device themselves."""
ATTENTION = ["test_decode_attention.py", "test_prefill_attention.py", "test_rotary_store.py"]
INTERPRETED = ["attention/test_attention_bounds.py", "test_bounds.py", "test_contests.py", "test_five_services.py"]
INTERPRETED += ["test_groups_of_two.py"]
INTERPRETED += ["test_current_device_everywhere.py", "test_launches.py", "test_replayed_decodes.py", "test_waits.py"]
collect_ignore = (
    COMPILED if IS_INTERPRETED else INTERPRETED if HAS_GPU else [*INTERPRETED, *ANYWHERE, "attention", "products"]
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what only `make test-gpu-kernels` has the minutes for, and marks what runs on a GPU."""
    if HAS_GPU:
        for item in items:
            mark_for_gpu(item)
    left_out = [] if IS_THOROUGH else [item for item in items if item.get_closest_marker("thorough")]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in set(left_out)]


def mark_for_gpu(item: pytest.Item) -> None:
    """Marks a test that launches kernels, and skips those of fp8 on a GPU that has none."""
    if item.path.name not in (*ANYWHERE, *ATTENTION):
        return
    item.add_marker("gpu")
    has_fp8 = torch.cuda.get_device_capability() >= MIN_FP8_CAPABILITY
    if not has_fp8 and ("fp8" in item.nodeid or "float8" in item.nodeid):
        item.add_marker(pytest.mark.skip(reason="the GPU has no fp8; to run it: sm_89 or newer"))


@pytest.fixture(autouse=True)
def _on_the_device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Has the launchers that a test imports take its tensors to the GPU."""
    if HAS_GPU and request.path.name in (*ANYWHERE, *ATTENTION) and request.path.name not in HAVE_DEVICES:
        for name in LAUNCHERS:
            if hasattr(request.module, name):
                monkeypatch.setattr(request.module, name, launched_on(DEVICE, getattr(request.module, name)))


@pytest.fixture(autouse=True)
def _repaired(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the interpreter multiply and subtract bf16, multiply each row by itself, and round to fp8."""
    if IS_INTERPRETED:
        from tests.libs.engine.triton.interpreter import repair_bf16, repair_fp8, repair_products

        repair_products(monkeypatch)
        repair_bf16(monkeypatch)
        repair_fp8(monkeypatch)
