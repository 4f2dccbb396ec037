"""The peaks of a device: named by settings, read from a profile, or measured once."""

import json
from pathlib import Path

import pytest
from tests.libs.engine.needed_kernels import needs_kernels

from headrace.engine.contract.engine import EngineSpec
from headrace.engine.kernels.choice import processor
from headrace.errors import ConfigError
from headrace.worker.config import WorkerSettings
from headrace.worker.status import device_rates as module
from headrace.worker.status.device_rates import DeviceRates, device_rates


def spec_of(device: str, precision: str) -> EngineSpec:
    return EngineSpec("test", 100, 200, 4, 64, 16, 8, frozenset({0}), device, precision, 0)


def test_a_profile_gives_rates_of_the_precision_and_a_price(root: Path) -> None:
    settings = WorkerSettings(model="m", device_profile=root / "deploy/profiles/h100.toml")
    assert device_rates(settings, spec_of("cuda:0", "bfloat16")) == DeviceRates(3.35e12, 9.89e14, 11.0)
    assert device_rates(settings, spec_of("cuda:0", "float32")).arithmetic_rate == 6.7e13
    assert device_rates(settings, spec_of("cuda:0", "int4 (awq)")).arithmetic_rate == 9.89e14


def test_settings_win_over_the_profile(root: Path) -> None:
    settings = WorkerSettings(
        model="m", device_profile=root / "deploy/profiles/l4.toml", memory_bandwidth=1.0, hourly_price=2.0
    )
    found = device_rates(settings, spec_of("cuda:0", "bfloat16"))
    assert (found.memory_bandwidth, found.hourly_price) == (1.0, 2.0)
    assert found.arithmetic_rate > 1e13


def test_a_file_that_is_no_profile_is_refused(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.toml"
    wrong.write_text("memory_bandwidth = 'fast'\n")
    for path in (wrong, tmp_path / "missing.toml"):
        with pytest.raises(ConfigError, match="is not a device profile"):
            device_rates(WorkerSettings(model="m", device_profile=path), spec_of("cpu", "float32"))


def test_an_unknown_gpu_and_a_played_model_have_no_rates() -> None:
    assert device_rates(WorkerSettings(model="m"), spec_of("cuda:0", "bfloat16")) == DeviceRates()
    assert device_rates(WorkerSettings(model="m", engine="sim"), spec_of("cpu", "none")) == DeviceRates()


def test_processors_of_arm_share_no_rates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = set()
    for part in ("0xd40", "0xd4f"):
        (tmp_path / part).write_text(f"processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: {part}\n")
        monkeypatch.setattr(processor, "CPU_FACTS", tmp_path / part)
        names.add(module._processor())
    assert len(names) == 2


@needs_kernels
@pytest.mark.slow
def test_a_machine_is_measured_once(tmp_path: Path) -> None:
    settings = WorkerSettings(model="m", packed_folder=tmp_path / "packed", thread_count=1)
    first = device_rates(settings, spec_of("cpu", "float32"))
    assert first.memory_bandwidth > 1e8
    assert first.arithmetic_rate > 1e8
    (kept,) = (tmp_path / "rates").iterdir()
    changed = json.loads(kept.read_text()) | {"memory_bandwidth": 5.0}
    kept.write_text(json.dumps(changed))
    assert device_rates(settings, spec_of("cpu", "float32")).memory_bandwidth == 5.0
    assert device_rates(settings, spec_of("cpu", "int8")).arithmetic_rate == changed["integer_rate"]
    kept.write_text("{")
    assert device_rates(settings, spec_of("cpu", "float32")).memory_bandwidth > 1e8
