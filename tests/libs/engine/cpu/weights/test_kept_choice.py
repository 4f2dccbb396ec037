"""A second start takes the choice among kernels that the first has measured, unless something has changed since."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.libs.engine.engine_running import engine_config
from tests.libs.engine.needed_kernels import needs_kernels

from headrace.demo_model import CHECKPOINT
from headrace.engine.checkpoints.model_config import read_model_config
from headrace.engine.checkpoints.weights.weight_rounding import WeightRounding
from headrace.engine.cpu import load
from headrace.engine.cpu.runner import CpuRunner
from headrace.engine.cpu.weights import packed_cache
from headrace.engine.cpu.weights.kept_choice import choice_key, choice_path, read_choice, write_choice
from headrace.engine.cpu.weights.packed_cache import PackedWeightsCache
from headrace.engine.cpu.weights.packed_key import Packing
from headrace.engine.kernels.choice import processor
from headrace.engine.kernels.choice.kernel_choice import KernelChoice, choose_kernels, contenders
from headrace.engine.kernels.choice.shared_context import shared_context
from headrace.engine.kernels.context import KernelContext
from headrace.engine.kernels.library import Instructions
from headrace.engine.kernels.packed_weight import PackedWeight

pytestmark = needs_kernels
KEY = "key"


@pytest.fixture
def choice() -> KernelChoice:
    return KernelChoice(((1, contenders()[0]), (128, contenders()[-1])))


def test_a_choice_is_kept(tmp_path: Path, choice: KernelChoice) -> None:
    path = tmp_path / "model.kernels"
    assert read_choice(path, KEY) is None
    write_choice(path, KEY, choice)
    assert read_choice(path, KEY) == choice
    assert [each.name for each in tmp_path.iterdir()] == ["model.kernels"]
    assert read_choice(path, "another") is None


def test_a_set_that_may_no_longer_be_used_is_not_taken(tmp_path: Path, choice: KernelChoice) -> None:
    unusable = next(each for each in Instructions if each not in contenders())
    write_choice(tmp_path / "model.kernels", KEY, KernelChoice(((1, unusable), *choice.by_rows)))
    assert read_choice(tmp_path / "model.kernels", KEY) is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b'{"key": "key"}',
        b'{"key": "key", "by_rows": [[1, "SSE9"]]}',
        b'{"key": "key", "by_rows": [[Infinity, "AVX2"]]}',
        b"\xff",
        b"[" * 1_000_000,
    ],
    ids=range(7),
)
def test_a_damaged_file_is_measured_again(tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "model.kernels"
    path.write_bytes(content)
    assert read_choice(path, KEY) is None
    assert "measured again" in caplog.text


def test_another_number_of_threads_is_another_key() -> None:
    assert choice_key(KernelContext(1)) == choice_key(KernelContext(1)) != choice_key(KernelContext(2))


def test_another_processor_is_another_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processors of Arm have no `model name`."""
    keys, context = set(), KernelContext(1)
    for part in ("0xd40", "0xd4f"):
        (tmp_path / part).write_text(f"processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: {part}\n")
        monkeypatch.setattr(processor, "CPU_FACTS", tmp_path / part)
        keys.add(choice_key(context))
    assert len(keys) == 2


def test_a_folder_that_cannot_be_written_is_said(
    tmp_path: Path, choice: KernelChoice, caplog: pytest.LogCaptureFixture
) -> None:
    write_choice(tmp_path / "missing" / "model.kernels", KEY, choice)
    assert "cannot be kept" in caplog.text


def test_a_second_start_measures_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_cache, "MIN_BYTES", 0)
    measured: list[KernelChoice] = []

    def measure(context: KernelContext, weights: Sequence[PackedWeight], *, exact: bool) -> KernelChoice:
        measured.append(choose_kernels(context, weights, exact=exact))
        return measured[-1]

    monkeypatch.setattr(load, "choose_kernels", measure)
    config = engine_config(block_count=64, packed_folder=tmp_path, precision="int4")
    runners = [load.load_cpu(CHECKPOINT, read_model_config(CHECKPOINT), config, 256).runner for _ in range(2)]
    found = [runner._kernels for runner in runners if isinstance(runner, CpuRunner)]
    assert len(measured) == 1
    assert found[0] == found[1] == measured[0]
    (path,) = tmp_path.glob("*.kernels")
    assert path == choice_path(next(tmp_path.glob("*.packed")))
    shared_context.cache_clear()


def test_a_choice_leaves_with_its_weights(
    tmp_path: Path, choice: KernelChoice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed_cache, "MIN_BYTES", 0)
    weights = load._read_weights(
        CHECKPOINT, read_model_config(CHECKPOINT), Packing(WeightRounding(4), exact=False, keeps_blocks=False)
    )
    old, new = tmp_path / "old-1.packed", tmp_path / "new-1.packed"
    cache = PackedWeightsCache(tmp_path, weights.byte_count + (1 << 16))
    cache.save(old, weights)
    write_choice(choice_path(old), KEY, choice)
    write_choice(choice_path(new), KEY, choice)
    cache.save(new, weights)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new-1.kernels", "new-1.packed"]
