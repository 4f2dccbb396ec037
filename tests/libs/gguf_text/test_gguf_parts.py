"""GGUF models in several files are one model, whichever file is named."""

import shutil
from pathlib import Path

import gguf
import numpy as np
import pytest

from headrace.engine.checkpoints.gguf.gguf_arrays import GgufArrays
from headrace.errors.tree import InvalidCheckpoint
from headrace.gguf_text.gguf_parts import parts_named_like, read_parts, whole_name
from headrace.gguf_text.gguf_tokenizer import GgufText

ROW = np.arange(32, dtype=np.float32)


@pytest.fixture
def parts(tmp_path: Path) -> list[Path]:
    """A model of three tensors in three files, as the package splits it."""
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "llama", split_max_tensors=1)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(["<unk>", "a"])
    writer.add_token_scores([0.0, 0.0])
    writer.add_token_types([2, 1])
    for index in range(3):
        writer.add_tensor(f"t{index}.weight", ROW + index)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return sorted(tmp_path.glob("*.gguf"))


@pytest.mark.parametrize("index", [0, 1, 2])
def test_all_parts_are_read_from_any(parts: list[Path], index: int) -> None:
    assert [path for path, _ in read_parts(parts[index])] == parts
    arrays = GgufArrays(parts[index])
    for number in range(3):
        assert np.array_equal(arrays.values(f"t{number}.weight", (32,)), ROW + number)
    assert GgufText(parts[index]).tokens == ["<unk>", "a"]


def test_a_missing_part_is_named(parts: list[Path]) -> None:
    parts[1].unlink()
    with pytest.raises(InvalidCheckpoint, match=r"part 1 of a model in 3 files.* missing: m-00002-of-00003\.gguf"):
        GgufArrays(parts[0])
    with pytest.raises(InvalidCheckpoint, match=r"part 3 of a model in 3 files.* missing: m-00002-of-00003\.gguf"):
        GgufText(parts[2])


def test_a_part_of_another_name_says_what_its_name_must_be(parts: list[Path]) -> None:
    renamed = parts[0].rename(parts[0].with_name("other.gguf"))
    with pytest.raises(InvalidCheckpoint, match=r"must end with -00001-of-00003\.gguf"):
        GgufText(renamed)


def test_a_part_in_the_place_of_another_is_refused(parts: list[Path]) -> None:
    shutil.copy(parts[1], parts[2])
    with pytest.raises(InvalidCheckpoint, match=r"m-00003-of-00003\.gguf says that it is part 2 of 3, not 3 of 3"):
        GgufArrays(parts[0])


def test_names_of_parts_are_those_of_one_model(parts: list[Path], tmp_path: Path) -> None:
    assert {whole_name(path.name) for path in parts} == {"m.gguf"}
    assert parts_named_like(parts[2]) == parts
    assert parts_named_like(tmp_path / "single.gguf") == [tmp_path / "single.gguf"]
