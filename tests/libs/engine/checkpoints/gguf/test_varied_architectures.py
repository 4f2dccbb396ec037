"""GGUF files of Gemma 3n and 4 compute what their folders do."""

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Kind
from safetensors.torch import load_file, save_file
from tests.libs.engine.checkpoints.families.oracles import load, prompt_logits
from tests.libs.engine.gguf_files import close_writer
from tests.libs.engine.gguf_varied import WIDTH, convert_varied
from tests.libs.engine.tiny_models import make_family, make_prompts

from headrace.engine.checkpoints.model_config import read_model_config
from headrace.errors import InvalidCheckpoint

(PROMPT,) = make_prompts((60,))
FAMILIES = ("gemma4", "gemma4_moe", "gemma3n")


@pytest.mark.parametrize("name", FAMILIES)
def test_a_file_computes_what_its_folder_does(name: str, tmp_path: Path) -> None:
    make_family(tmp_path, name, vocab_size_per_layer_input=199)
    path = convert_varied(tmp_path, tmp_path / "model.gguf")
    file, folder = load(path), load(tmp_path)
    assert float((prompt_logits(file, PROMPT) - prompt_logits(folder, PROMPT)).abs().max()) <= 1e-4
    assert file.spec.parameter_count == folder.spec.parameter_count
    assert file.spec.cost == folder.spec.cost


@pytest.mark.parametrize("name", FAMILIES)
def test_blocks_are_read_as_the_numbers_that_they_stand_for(name: str, tmp_path: Path) -> None:
    sizes = {"moe_intermediate_size": 32} if name == "gemma4_moe" else {}
    make_family(tmp_path, name, intermediate_size=96, **sizes)
    path = convert_varied(tmp_path, tmp_path / "model.gguf", Kind.Q8_0)
    file = tmp_path / "model.safetensors"
    save_file({key: rounded(key, tensor) for key, tensor in load_file(file).items()}, file)
    folder = prompt_logits(load(tmp_path), PROMPT)
    for kernels in ("auto", "torch"):
        assert float((prompt_logits(load(path, exact=True, kernels=kernels), PROMPT) - folder).abs().max()) <= 1e-3


def rounded(name: str, tensor: torch.Tensor) -> torch.Tensor:
    """The numbers that a file of Q8_0 has."""
    if tensor.ndim == 1 or tensor.shape[-1] % WIDTH or ".router." in name:
        return tensor
    values = gguf.dequantize(gguf.quantize(tensor.numpy(), Kind.Q8_0), Kind.Q8_0)
    return torch.from_numpy(values.reshape(tensor.shape).copy())


def test_lists_that_fit_no_layer_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    writer = gguf.GGUFWriter(path, "gemma4")
    entries: list[tuple[Any, Any]] = [
        (writer.add_context_length, 512),
        (writer.add_embedding_length, 64),
        (writer.add_block_count, 2),
        (writer.add_head_count, 4),
        (writer.add_layer_norm_rms_eps, 1e-6),
        (writer.add_sliding_window, 24),
        (writer.add_sliding_window_pattern, [True, False]),
        (writer.add_feed_forward_length, 96),
        (writer.add_key_length, 32),
        (writer.add_key_length_swa, 16),
        (writer.add_head_count_kv, [2, 1, 1]),
    ]
    for add, value in entries:
        add(value)
    writer.add_tensor("token_embd.weight", np.zeros((8, 64), np.float32))
    close_writer(writer)
    with pytest.raises(InvalidCheckpoint, match="head_count_kv has 3 entries"):
        read_model_config(path)
