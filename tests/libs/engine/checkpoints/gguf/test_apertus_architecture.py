"""GGUF files of Apertus, whose activation has numbers of each layer in the metadata, compute what the folder does."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Kind
from tests.libs.engine import gguf_files
from tests.libs.engine.checkpoints.families.oracles import load
from tests.libs.engine.checkpoints.gguf.test_gguf_families import logits
from tests.libs.engine.tiny_models import make_family, make_prompts

from headrace.errors import InvalidCheckpoint

LAYERS = 3
(PROMPT,) = make_prompts((60,))
Numbers = dict[str, Any]
add_usual_rope = gguf_files.add_rope


def learned_numbers(folder: Path) -> Numbers:
    """The numbers of each layer, by their keys in a file."""
    arrays = gguf_files.load_arrays(folder)
    names = {name: f"model.layers.{{}}.mlp.act_fn.{name}" for name in ("alpha_p", "alpha_n", "beta", "eps")}
    return {
        f"xielu.{name}": [float(arrays[path.format(index)].item()) for index in range(LAYERS)]
        for name, path in names.items()
    }


@pytest.fixture(autouse=True)
def _architecture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(gguf_files.ARCHITECTURES, "apertus", gguf.MODEL_ARCH.APERTUS)
    monkeypatch.setattr(gguf_files, "add_rope", add_rope)


def add_rope(writer: gguf.GGUFWriter, config: dict[str, Any]) -> None:
    """Llama 3's scaling, which published models have, is a factor for each frequency."""
    rope = config["rope_parameters"]
    if rope["rope_type"] != "llama3":
        add_usual_rope(writer, config)
        return
    add_usual_rope(writer, config | {"rope_parameters": rope | {"rope_type": "default"}})
    size = config["hidden_size"] // config["num_attention_heads"]
    lengths = 2 * np.pi * rope["rope_theta"] ** (np.arange(0, size, 2) / size)
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    kept = np.clip((rope["original_max_position_embeddings"] / lengths - low) / (high - low), 0, 1)
    assert ((kept > 0) & (kept < 1)).any()
    writer.add_tensor("rope_freqs.weight", (1 / (kept + (1 - kept) / rope["factor"])).astype(np.float32))


def convert(folder: Path, path: Path, numbers: Mapping[str, Any], kind: Kind = Kind.F32) -> Path:
    """Converts a folder as llama.cpp does. A list becomes a number for each layer, anything else a value for all."""
    writer = gguf_files.open_writer(path, json.loads((folder / "config.json").read_text()))
    for key, value in numbers.items():
        (writer.add_array if isinstance(value, list) else writer.add_float32)(key, value)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.APERTUS, LAYERS)
    for name, values in gguf_files.load_arrays(folder).items():
        if ".act_fn." in name:
            continue
        target = names.get_name(name, try_suffixes=(".weight", ".bias"))
        assert target is not None, name
        if values.ndim == 1 or kind == Kind.F32:
            writer.add_tensor(target, values)
        else:
            writer.add_tensor(target, gguf.quantize(values, kind), raw_dtype=kind)
    gguf_files.close_writer(writer)
    return path


@pytest.mark.parametrize("family", ["apertus", "apertus_biased"])
def test_a_file_is_read_as_the_folder_is(family: str, tmp_path: Path) -> None:
    oracle = make_family(tmp_path / "folder", family)
    numbers = learned_numbers(tmp_path / "folder")
    assert all(len(set(each)) == LAYERS for key, each in numbers.items() if "alpha" in key)
    path = convert(tmp_path / "folder", tmp_path / "model.gguf", numbers)
    with torch.inference_mode():
        expected = oracle(torch.tensor([PROMPT])).logits[0, :-1]
    found = logits(path, PROMPT)
    assert torch.equal(found, logits(tmp_path / "folder", PROMPT))
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)
    file, folder = load(path).spec, load(tmp_path / "folder").spec
    assert (file.parameter_count, file.memory) == (folder.parameter_count, folder.memory)


def test_layers_may_share_a_number(tmp_path: Path) -> None:
    make_family(tmp_path / "folder", "apertus")
    numbers = learned_numbers(tmp_path / "folder")
    listed = numbers | {"xielu.beta": [0.25] * LAYERS}
    paths = [
        convert(tmp_path / "folder", tmp_path / f"{name}.gguf", each)
        for name, each in (("listed", listed), ("shared", numbers | {"xielu.beta": 0.25}), ("own", numbers))
    ]
    first, second, other = (logits(path, PROMPT) for path in paths)
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


def test_blocks_find_their_place(tmp_path: Path) -> None:
    make_family(tmp_path / "folder", "apertus", intermediate_size=96)
    expected = logits(tmp_path / "folder", PROMPT)
    path = convert(tmp_path / "folder", tmp_path / "model.gguf", learned_numbers(tmp_path / "folder"), Kind.Q8_0)
    assert (logits(path, PROMPT) - expected).norm() < 0.2 * expected.norm()


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"xielu.beta": [0.5, 0.5]}, "metadata xielu.beta has 2 numbers for 3 layers"),
        ({"xielu.alpha_n": [0.5, float("nan"), 0.5]}, "metadata xielu.alpha_n is nan, not a number"),
        ({"xielu.eps": ["a", "b", "c"]}, "metadata xielu.eps is 'a', not a number"),
        ({"xielu.alpha_p": None}, "has no metadata xielu.alpha_p"),
    ],
)
def test_numbers_that_are_missing_or_none_are_refused(changed: Numbers, named: str, tmp_path: Path) -> None:
    make_family(tmp_path / "folder", "apertus")
    numbers = {key: value for key, value in (learned_numbers(tmp_path / "folder") | changed).items() if value}
    with pytest.raises(InvalidCheckpoint, match=named):
        logits(convert(tmp_path / "folder", tmp_path / "model.gguf", numbers), PROMPT)
