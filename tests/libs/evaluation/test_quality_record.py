"""Figures are kept beside the weights that they are about, and forgotten with them."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from headrace.demo_model import CHECKPOINT
from headrace.errors import ConfigError
from headrace.evaluation.precision_quality import measure_precisions
from headrace.evaluation.quality_record import FILE, RecordedQuality, read_record, write_record

INT8, INT4 = (RecordedQuality(name, 20.5, share, 100) for name, share in (("int8", 0.99), ("int4", 0.9)))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(CHECKPOINT, tmp_path / "model"))


def test_what_is_written_is_read_and_added_to(folder: Path) -> None:
    assert read_record(folder) == {}
    assert write_record(folder, {"int8": INT8}) == folder / FILE
    write_record(folder, {"int4": INT4})
    assert read_record(folder) == {"int8": INT8, "int4": INT4}
    assert not list(folder.glob(".*"))


def test_figures_of_other_weights_are_not_used(folder: Path) -> None:
    write_record(folder, {"int8": INT8})
    with (folder / "model.safetensors").open("ab") as file:
        file.write(b"more")
    assert read_record(folder) == {}


def test_a_gguf_file_has_its_record_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(b"GGUF")
    assert write_record(file, {"int8": INT8}).parent == tmp_path
    assert read_record(file) == {"int8": INT8}


@pytest.mark.parametrize(
    "damage", ["", "[]", '{"rows": []}', {"top1_agreement": 2}, {"perplexity": "nan"}, {"token_count": None}]
)
def test_a_bad_file_is_named(folder: Path, damage: str | dict[str, Any]) -> None:
    path = write_record(folder, {"int8": INT8})
    if isinstance(damage, dict):
        content = json.loads(path.read_text())
        content["rows"][0] |= damage
        damage = json.dumps(content)
    path.write_text(damage)
    with pytest.raises(ConfigError, match=rf"{FILE} cannot be read"):
        read_record(folder)


@pytest.mark.slow
def test_precisions_are_measured_against_float32() -> None:
    shares: list[float] = []
    found = measure_precisions(CHECKPOINT, ["float32", "int4"], shares.append)
    assert found["float32"].top1_agreement == 1
    assert 0.9 < found["int4"].top1_agreement < 1
    assert found["int4"].perplexity > found["float32"].perplexity
    assert shares == sorted(shares)
    assert shares[-1] == 1
