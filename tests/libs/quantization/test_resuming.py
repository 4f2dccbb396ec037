"""A quantization that was killed goes on where it was, to the same bytes, and never mixes with another one."""

import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.libs.quantization.killed_runs import SEQUENCES, KilledRuns

from headrace.demo_model import CHECKPOINT
from headrace.errors import ConfigError, InvalidCheckpoint
from headrace.evaluation.text import calibration_text
from headrace.quantization.checkpoint_quantizer import QuantizationSummary, quantize_checkpoint
from headrace.quantization.quantization_settings import QuantizationSettings
from headrace.quantization.unfinished_checkpoint import open_unfinished


@pytest.fixture(scope="module")
def killed() -> Iterator[KilledRuns]:
    runs = KilledRuns()
    yield runs
    runs.close()


@pytest.fixture(scope="module")
def left(killed: KilledRuns, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two layers by GPTQ and half of a third, which a killed run left. To be copied."""
    target = tmp_path_factory.mktemp("left") / "target"
    killed.run(target, "gptq", "unfinished_checkpoint", 3)
    assert not target.exists()
    return target.with_name(".target.unfinished")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, bytes]]:
    """Files of a run that nothing interrupts, by its method."""

    @cache
    def files(method: str) -> dict[str, bytes]:
        target = tmp_path_factory.mktemp(method) / "whole"
        assert quantize(target, method=method).resumed_layer_count == 0
        assert [path.name for path in target.parent.iterdir()] == ["whole"]
        return contents(target)

    return files


def quantize(target: Path, source: Path = CHECKPOINT, text: str = "", **settings: Any) -> QuantizationSummary:
    chosen = QuantizationSettings(**({"sequence_count": SEQUENCES} | settings))
    return quantize_checkpoint(source, target, chosen, text or calibration_text(), lambda _work, _share: None)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.process
@pytest.mark.parametrize(
    ("method", "module", "count", "finished"),
    [
        ("rtn", "unfinished_checkpoint", 1, 0),
        ("awq", "unfinished_checkpoint", 4, 3),
        ("rtn", "checkpoint_writer", 1, 5),
    ],
)
def test_a_killed_run_is_continued_to_the_same_bytes(
    killed: KilledRuns,
    whole: Callable[[str], dict[str, bytes]],
    tmp_path: Path,
    method: str,
    module: str,
    count: int,
    finished: int,
) -> None:
    killed.run(tmp_path / "killed", method, module, count)
    assert not (tmp_path / "killed").exists()
    assert quantize(tmp_path / "killed", method=method).resumed_layer_count == finished
    assert contents(tmp_path / "killed") == whole(method)
    assert [path.name for path in tmp_path.iterdir()] == ["killed"]


@pytest.mark.process
def test_another_run_does_not_mix_with_it_and_the_same_one_continues_to_the_same_bytes(
    left: Path, whole: Callable[[str], dict[str, bytes]], tmp_path: Path
) -> None:
    target = tmp_path / "target"
    shutil.copytree(left, tmp_path / left.name)
    source = Path(shutil.copytree(CHECKPOINT, tmp_path / "source"))
    config = source / "config.json"
    config.write_text(config.read_text().replace('"initializer_range": 0.02', '"initializer_range": 0.03'))
    for changes, named in (
        ({"bits": 8}, "bits was 4 and is 8"),
        ({"method": "awq"}, "method was gptq and is awq"),
        ({"group_size": 64}, "group_size was 128 and is 64"),
        ({"sequence_count": 4}, "sequence_count was 1 and is 4"),
        ({"text": calibration_text() + "."}, "calibration text was"),
        ({"source": source}, "source was"),
    ):
        with pytest.raises(ConfigError, match=f"unfinished run of another kind.*{named}.*delete the folder"):
            quantize(target, **changes)
    assert quantize(target, method="gptq").resumed_layer_count == 2
    assert contents(target) == whole("gptq")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source", "target"]


@pytest.mark.process
def test_what_is_damaged_is_named(left: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    unfinished = Path(shutil.copytree(left, tmp_path / left.name))
    layer = unfinished / "layer-00001.safetensors"
    layer.write_bytes(layer.read_bytes()[:-9])
    with pytest.raises(InvalidCheckpoint, match=r"layer-00001\.safetensors cannot be read"):
        quantize(target)
    layer.unlink()
    (unfinished / "run.json").write_text("{")
    with pytest.raises(ConfigError, match=r"run\.json cannot be read.*start again"):
        quantize(target)


def test_two_at_once_are_refused(tmp_path: Path) -> None:
    with (
        open_unfinished(tmp_path / "target", {}),
        pytest.raises(ConfigError, match="Another process"),
        open_unfinished(tmp_path / "target", {}),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_run_keeps_whole_layers_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: Any) -> None:
        raise KeyboardInterrupt

    for module, left in (("unfinished_checkpoint", []), ("checkpoint_writer", [".target.unfinished"])):
        with monkeypatch.context() as patch:
            patch.setattr(f"headrace.quantization.{module}.save_file", interrupt)
            with pytest.raises(KeyboardInterrupt):
                quantize(tmp_path / "target", method="rtn")
        assert [path.name for path in tmp_path.iterdir()] == left
    assert quantize(tmp_path / "target", method="rtn").resumed_layer_count == 5
