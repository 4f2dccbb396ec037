"""Every family of encoders against transformers, and against itself in other batches."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.libs.engine.tiny_encoders import NAMES, hidden_states, make_encoder
from tests.libs.engine.tiny_models import make_prompts

from headrace.engine.checkpoints.encoder_settings import read_encoder_config
from headrace.engine.checkpoints.families.registry import find_family
from headrace.engine.checkpoints.safetensors_weights import Weights
from headrace.engine.torch.encoder.encoder import Encoder
from headrace.engine.torch.operators.choose_operators import choose_encoder_operators
from headrace.engine.torch.operators.operators import Operators
from headrace.engine.torch.operators.torch_operators import TorchOperators
from headrace.errors import InvalidCheckpoint, Unsupported

MAX_ERROR = 1e-4
LENGTHS = (1, 2, 3, 17, 64, 129, 300, 512)


CPU = torch.device("cpu")


def load(folder: Path, dtype: torch.dtype = torch.float32, operators: Operators | None = None) -> Encoder:
    config = read_encoder_config(folder)
    return Encoder(config, Weights(folder), operators or choose_encoder_operators(1), dtype, CPU)


def relative_error(encoder: Encoder, expected: torch.Tensor, prompt: tuple[int, ...]) -> float:
    (found,) = encoder([prompt])
    assert found.shape == expected.shape
    return float((torch.from_numpy(found) - expected).abs().max() / expected.abs().max())


@pytest.mark.slow
@pytest.mark.parametrize("with_head", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_hidden_states_equal_transformers(name: str, with_head: bool, tmp_path: Path) -> None:
    model = make_encoder(tmp_path, name, with_head=with_head)
    for operators in (None, TorchOperators()):
        encoder = load(tmp_path, operators=operators)
        for prompt in make_prompts(LENGTHS):
            assert relative_error(encoder, hidden_states(model, prompt), prompt) <= MAX_ERROR, len(prompt)


def test_a_padding_token_in_the_input_has_the_position_that_transformers_gives_it(tmp_path: Path) -> None:
    model = make_encoder(tmp_path, "roberta")
    prompt = (7, 1, 8, 1, 1, 9)
    assert relative_error(load(tmp_path), hidden_states(model, prompt), prompt) <= MAX_ERROR


@pytest.mark.slow
@pytest.mark.parametrize("thread_count", [1, 3, None])
@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("bert", torch.float32),
        ("bert", torch.bfloat16),
        ("bert", torch.float16),
        ("bert_new_gelu", torch.float32),
        ("bert_relu", torch.float32),
        ("mpnet", torch.float32),
    ],
)
def test_batch_does_not_change_a_bit(name: str, dtype: torch.dtype, thread_count: int | None, tmp_path: Path) -> None:
    """All lengths up to 40 and some beyond, alone, all together, and in pairs with a twin of the same length. None
    stands for a machine without kernels."""
    make_encoder(tmp_path, name)
    prompts = make_prompts((*range(1, 41), 63, 64, 65, 127, 128, 129, 300, 512))
    operators = TorchOperators() if thread_count is None else choose_encoder_operators(thread_count)
    encoder = load(tmp_path, dtype, operators)
    alone = [encoder([prompt])[0] for prompt in prompts]
    together = encoder(list(reversed(prompts)))[::-1]
    twins = [encoder([prompt[::-1], prompt, prompt[::-1]])[1] for prompt in prompts]
    for prompt, first, second, third in zip(prompts, alone, together, twins, strict=True):
        assert np.array_equal(first, second), len(prompt)
        assert np.array_equal(first, third), len(prompt)


def test_the_names_of_the_first_checkpoints_are_known(tmp_path: Path) -> None:
    model = make_encoder(tmp_path, "bert")
    tensors = load_file(tmp_path / "model.safetensors")
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
        for name, tensor in tensors.items()
    }
    assert old.keys() != tensors.keys()
    save_file(old, tmp_path / "model.safetensors")
    (prompt,) = make_prompts((20,))
    assert relative_error(load(tmp_path), hidden_states(model, prompt), prompt) <= MAX_ERROR


def test_what_only_makes_text_says_that_an_encoder_makes_none() -> None:
    with pytest.raises(Unsupported, match="BertModel makes embeddings and no text"):
        find_family("BertModel")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"architectures": ["DebertaModel"]}, "DebertaModel is not supported; .*BertModel"),
        ({"hidden_act": "mish"}, "activation mish is not supported in Bert: only gelu"),
        ({"position_embedding_type": "relative_key"}, "positions of type relative_key are not supported"),
        ({"is_decoder": True}, "Bert as a decoder is not supported"),
    ],
)
def test_what_is_not_there_is_refused_by_name(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    make_encoder(tmp_path, "bert")
    edit(tmp_path, change)
    with pytest.raises(Unsupported, match=message):
        read_encoder_config(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_attention_heads": 5}, "hidden_size 64 is not a multiple of 5"),
        ({"num_hidden_layers": 0}, "layer_count is 0"),
        ({"vocab_size": "many"}, "malformed"),
        ({"hidden_size": 32}, "has shape"),
    ],
)
def test_a_broken_checkpoint_is_a_typed_error(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    make_encoder(tmp_path, "bert")
    edit(tmp_path, change)
    with pytest.raises(InvalidCheckpoint, match=message):
        load(tmp_path)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("roberta", {"pad_token_id": -5}),
        ("roberta", {"pad_token_id": None}),
        ("roberta", {"pad_token_id": 513}),
        ("mpnet", {"relative_attention_num_buckets": 3}),
        ("mpnet", {"relative_attention_num_buckets": -1}),
    ],
)
def test_positions_that_cannot_be_are_a_typed_error(name: str, change: dict[str, Any], tmp_path: Path) -> None:
    make_encoder(tmp_path, name)
    edit(tmp_path, change)
    with pytest.raises(InvalidCheckpoint, match=r"config\.json"):
        load(tmp_path)


def edit(folder: Path, change: dict[str, Any]) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
