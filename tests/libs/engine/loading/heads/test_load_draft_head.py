"""A head that does not fit is refused, with the reason and what to do."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.libs.engine.cpu.draft_head.eagle_reference import DRAFT_VOCABULARY, make_head
from tests.libs.engine.cpu.draft_head.headed_models import embedding_of, make_target
from tests.libs.engine.engine_running import engine_config, without_kernels
from torch import Tensor
from transformers import PreTrainedModel

from headrace.engine.checkpoints.draft_heads.eagle_config import is_draft_head
from headrace.engine.loading.load_text_engine import load_text_engine
from headrace.errors import ConfigError, InvalidCheckpoint, Unsupported

Config = dict[str, Any]
Tensors = dict[str, Tensor]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, PreTrainedModel]:
    folder = tmp_path_factory.mktemp("target")
    return folder, make_target(folder)


@pytest.fixture
def head(target: tuple[Path, PreTrainedModel], tmp_path: Path) -> Path:
    make_head(tmp_path, embedding_of(target[1]))
    return tmp_path


def load(folder: Path, **settings: Any) -> None:
    load_text_engine(folder, engine_config(**({"speculation": "on", "block_count": 8} | settings))).close()


def set_key(*path: str, value: object) -> Callable[[Config], None]:
    def change(config: Config) -> None:
        *outer, last = path
        for key in outer:
            config = config[key]
        config[last] = value

    return change


LAYER = "transformer_layer_config"
CONFIGS: dict[str, tuple[Callable[[Config], None], type[Exception], str]] = {
    "kind": (
        set_key("speculators_model_type", value="dflash"),
        Unsupported,
        "kind dflash .* take one of the kind eagle3",
    ),
    "layers": (set_key(LAYER, "num_hidden_layers", value=2), Unsupported, "2 layers"),
    "four layers": (set_key("eagle_aux_hidden_state_layer_ids", value=[0, 1, 2, 3]), Unsupported, "reads 4 layers"),
    "beyond": (set_key("eagle_aux_hidden_state_layer_ids", value=[0, 1, 7]), InvalidCheckpoint, "the model has 6"),
    "bias": (set_key(LAYER, "attention_bias", value=True), Unsupported, "attention_bias"),
    "norm": (set_key("norm_before_fc", value=True), Unsupported, "norm_before_fc"),
    "Qwen": (set_key(LAYER, "model_type", value="qwen3"), Unsupported, "no Llama's"),
    "activation": (set_key(LAYER, "hidden_act", value="gelu"), Unsupported, "activation gelu"),
    "vocabulary": (set_key(LAYER, "vocab_size", value=300), InvalidCheckpoint, "vocab_size 300, and this one has 199"),
    "draft vocabulary": (set_key("draft_vocab_size", value=300), InvalidCheckpoint, "300 of 199 tokens"),
    "width": (set_key("target_hidden_size", value=128), InvalidCheckpoint, "hidden size 128, and this one has 64"),
    "head size": (set_key(LAYER, "head_dim", value=24), Unsupported, "head size .* multiple of 16"),
    "a word": (set_key("draft_vocab_size", value="many"), InvalidCheckpoint, "malformed"),
    "no layer": (set_key(LAYER, value={}), InvalidCheckpoint, "has no"),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_a_head_of_another_kind_or_model_is_refused(
    name: str, target: tuple[Path, PreTrainedModel], head: Path
) -> None:
    change, error, message = CONFIGS[name]
    config = json.loads((head / "config.json").read_text())
    change(config)
    (head / "config.json").write_text(json.dumps(config))
    with pytest.raises(error, match=message):
        load(target[0], draft_folder=head)


def repeat_a_token(tensors: Tensors) -> None:
    tensors["d2t"][1] = tensors["d2t"][0] - 1


def cut(tensors: Tensors) -> None:
    tensors["fc.weight"] = tensors["fc.weight"][:, :-1].contiguous()


def mix_types(tensors: Tensors) -> None:
    name = "layers.0.self_attn.k_proj.weight"
    tensors[name] = tensors[name].to(torch.bfloat16)


TENSORS: dict[str, tuple[Callable[[Tensors], object], str]] = {
    "a lost matrix": (lambda tensors: tensors.pop("layers.0.mlp.up_proj.weight"), "up_proj.weight is in none"),
    "a lost vocabulary": (lambda tensors: tensors.pop("d2t"), f"{DRAFT_VOCABULARY} of 199 tokens, and no d2t"),
    "a token twice": (repeat_a_token, "does not name"),
    "a token beyond": (lambda tensors: tensors["d2t"].add_(199), "does not name"),
    "a shape": (cut, "config.json implies"),
    "types": (mix_types, "differ in their types"),
}


@pytest.mark.parametrize("name", TENSORS)
def test_damaged_tensors_are_named(name: str, target: tuple[Path, PreTrainedModel], head: Path) -> None:
    change, message = TENSORS[name]
    tensors = load_file(head / "model.safetensors")
    change(tensors)
    save_file(tensors, head / "model.safetensors")
    with pytest.raises(InvalidCheckpoint, match=message):
        load(target[0], draft_folder=head)


def test_heads_need_the_kernels_and_one_process(
    target: tuple[Path, PreTrainedModel], head: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match="choose one of them"):
        load(target[0], draft_folder=head, speculation="mtp")
    with pytest.raises(ConfigError, match="draft with a small model"):
        load(target[0], draft_folder=head, tensor_parallel_count=2)
    with pytest.raises(ConfigError, match="draft with a small model"):
        load(target[0], speculation="mtp", device="cuda")
    without_kernels(monkeypatch)
    with pytest.raises(ConfigError, match="draft with a small model"):
        load(target[0], draft_folder=head)


def test_a_model_without_a_layer_for_it_has_no_multi_token_prediction(target: tuple[Path, PreTrainedModel]) -> None:
    with pytest.raises(ConfigError, match="has no layer for multi-token prediction; choose 'on'"):
        load(target[0], speculation="mtp")


def test_a_model_is_no_head(target: tuple[Path, PreTrainedModel], head: Path) -> None:
    assert is_draft_head(head)
    assert not is_draft_head(target[0])
    assert not is_draft_head(target[0] / "elsewhere")
