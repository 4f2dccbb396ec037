"""GPUs exchange by NCCL and CPUs by gloo, unless the settings say gloo."""

from pathlib import Path

import pytest
from tests.libs.engine.engine_running import engine_config
from tests.libs.engine.tiny_models import make_family

from headrace.engine.loading.load_text_engine import load_text_engine
from headrace.engine.parallel.joining.collective_backend import choose_collective_backend
from headrace.errors import ConfigError


def test_the_backend_follows_the_device_and_the_settings() -> None:
    assert choose_collective_backend(engine_config(), "cpu") == "gloo"
    assert choose_collective_backend(engine_config(device="cuda"), "cuda") == "nccl"
    assert choose_collective_backend(engine_config(device="cuda", collective_backend="gloo"), "cuda") == "gloo"
    assert choose_collective_backend(engine_config(device="cuda", collective_backend="nccl"), "cuda") == "nccl"


def test_nccl_on_a_cpu_is_refused_before_any_process_starts(tmp_path: Path) -> None:
    make_family(tmp_path, "llama")
    with pytest.raises(ConfigError, match="collective_backend is 'nccl', which exchanges tensors of GPUs"):
        load_text_engine(tmp_path, engine_config(collective_backend="nccl", tensor_parallel_count=2))
