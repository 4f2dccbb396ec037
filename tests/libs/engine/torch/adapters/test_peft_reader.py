"""Adapters that are not supported, not whole or not made for the model are refused, by name."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.libs.engine.tiny_adapters import make_adapter
from tests.libs.engine.tiny_models import make_family

from headrace.engine.checkpoints.model_config import read_model_config
from headrace.engine.torch.adapters.peft_reader import read_adapter
from headrace.engine.torch.operators.torch_operators import TorchOperators
from headrace.errors import HeadraceError, InvalidCheckpoint, Unsupported

Q_PROJ = "base_model.model.model.layers.1.self_attn.q_proj"
Tensors = dict[str, torch.Tensor]


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pristine")
    base = make_family(folder / "base", "qwen2")
    make_adapter(folder, base, target_modules=["q_proj", "down_proj"])
    return folder


class Case:
    """An adapter's folder that a test may damage."""

    def __init__(self, pristine: Path, folder: Path) -> None:
        self.folder = folder
        self._base = pristine / "base"
        for name in ("adapter_config.json", "adapter_model.safetensors"):
            (folder / name).write_bytes((pristine / name).read_bytes())

    def configure(self, **settings: Any) -> None:
        path = self.folder / "adapter_config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | settings))

    def change(self, edit: Callable[[Tensors], object]) -> None:
        path = self.folder / "adapter_model.safetensors"
        tensors = load_file(path)
        edit(tensors)
        save_file(tensors, path)

    def refused(self, kind: type[HeadraceError], *said: str) -> None:
        with pytest.raises(kind) as refusal:
            self.read()
        assert all(part in refusal.value.message for part in said), refusal.value.message

    def read(self) -> None:
        config = read_model_config(self._base)
        read_adapter("tuned", self.folder, config, TorchOperators(), torch.float32, torch.device("cpu"))


@pytest.fixture
def case(pristine: Path, tmp_path: Path) -> Case:
    case = Case(pristine, tmp_path)
    case.read()
    return case


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"peft_type": "LOHA"}, "peft_type is 'LOHA'"),
        ({"use_dora": True}, "use_dora"),
        ({"modules_to_save": ["lm_head"]}, "modules_to_save"),
        ({"bias": "lora_only"}, "bias is 'lora_only'"),
        ({"lora_bias": True}, "lora_bias"),
        ({"fan_in_fan_out": True}, "fan_in_fan_out"),
        ({"trainable_token_indices": [1]}, "trainable_token_indices"),
        ({"layer_replication": [[0, 1]]}, "layer_replication"),
        ({"target_parameters": ["mlp.experts"]}, "target_parameters"),
        ({"alora_invocation_tokens": [5]}, "alora_invocation_tokens"),
        ({"use_qalora": True}, "use_qalora"),
        ({"init_lora_weights": "pissa_niter_4"}, "init_lora_weights is 'pissa_niter_4'"),
        ({"init_lora_weights": "olora"}, "init_lora_weights"),
        ({"a_field_of_tomorrow": 3}, "a_field_of_tomorrow"),
    ],
)
def test_settings_that_are_not_supported(case: Case, settings: dict[str, Any], said: str) -> None:
    case.configure(**settings)
    case.refused(Unsupported, "adapter_config.json", said)


@pytest.mark.parametrize(
    "settings",
    [
        {"a_field_of_tomorrow": None, "lora_dropout": 0.1, "task_type": "CAUSAL_LM"},
        {"init_lora_weights": "gaussian"},
        {"init_lora_weights": "EVA", "eva_config": {"rho": 2.0}},
        {"modules_to_save": []},
    ],
)
def test_settings_without_effect(case: Case, settings: dict[str, Any]) -> None:
    case.configure(**settings)
    case.read()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"r": 0}, "a rank is 0"),
        ({"r": True}, "a rank is True"),
        ({"r": "4"}, "a rank is '4'"),
        ({"rank_pattern": {"q_proj": -1}}, "a rank is -1"),
        ({"rank_pattern": {"(": 4}}, "malformed"),
        ({"rank_pattern": {"(?i)q_proj": 4}}, "malformed"),
        ({"rank_pattern": 5}, "malformed"),
        ({"lora_alpha": None}, "an alpha is None"),
        ({"lora_alpha": float("nan")}, "an alpha is nan"),
        ({"lora_alpha": 10**400}, "malformed"),
        ({"lora_alpha": 1e300}, "too large"),
        ({"alpha_pattern": {"q_proj": "x"}}, "an alpha is 'x'"),
        ({"target_modules": None}, "modules are given as None"),
        ({"target_modules": [1]}, "modules are given as [1]"),
        ({"target_modules": "["}, "malformed"),
        ({"target_modules": "x" * 5000}, "5000 characters"),
        ({"layers_to_transform": "x"}, "malformed"),
        ({"layers_to_transform": [0], "layers_pattern": "("}, "malformed"),
        ({"target_modules": ["q_proj"]}, "matrices for model.layers.0.mlp.down_proj"),
        ({"target_modules": ["q_proj", "down_proj", "k_proj"]}, "no matrices for model.layers.0.self_attn.k_proj"),
        ({"r": 5}, "shape (4, 100)"),
    ],
)
def test_settings_that_cannot_be(case: Case, settings: dict[str, Any], said: str) -> None:
    case.configure(**settings)
    case.refused(InvalidCheckpoint, said)


@pytest.mark.parametrize(
    ("edit", "kind", "said"),
    [
        (lambda t: t.pop(f"{Q_PROJ}.lora_A.weight"), InvalidCheckpoint, "lora_B of model.layers.1.self_attn.q_proj"),
        (lambda t: t[f"{Q_PROJ}.lora_A.weight"].fill_(torch.nan), InvalidCheckpoint, f"{Q_PROJ}.lora_A.weight"),
        (lambda t: t[f"{Q_PROJ}.lora_B.weight"][0].fill_(torch.inf), InvalidCheckpoint, f"{Q_PROJ}.lora_B.weight"),
        (
            lambda t: t.update({f"{Q_PROJ}.lora_B.weight": torch.zeros(65, 4)}),
            InvalidCheckpoint,
            f"{Q_PROJ}.lora_B.weight has shape (65, 4)",
        ),
        (
            lambda t: t.update({f"{Q_PROJ}.lora_B.weight": torch.zeros(64, 4, dtype=torch.int32)}),
            Unsupported,
            f"{Q_PROJ}.lora_B.weight holds I32",
        ),
        (lambda t: t.update({f"{Q_PROJ}.lora_magnitude_vector": torch.zeros(64)}), Unsupported, "DoRA"),
        (lambda t: t.update({f"{Q_PROJ}.lora_B.bias": torch.zeros(64)}), Unsupported, "bias"),
        (
            lambda t: t.update({"base_model.model.model.embed_tokens.lora_embedding_A": torch.zeros(4)}),
            Unsupported,
            "embed_tokens",
        ),
        (lambda t: t.update({"base_model.model.lm_head.weight": torch.zeros(4)}), Unsupported, "lm_head.weight"),
        (
            lambda t: t.update({f"base_model.model.lm_head.lora_{side}.weight": torch.zeros(4, 4) for side in "AB"}),
            Unsupported,
            "module lm_head cannot be adapted",
        ),
        (
            lambda t: t.update({f"{Q_PROJ.replace('1', '9')}.lora_{side}.weight": torch.zeros(4, 4) for side in "AB"}),
            Unsupported,
            "model.layers.9.self_attn.q_proj",
        ),
        (lambda t: t.clear(), InvalidCheckpoint, "no tensors"),
    ],
)
def test_tensors_that_do_not_fit(
    case: Case, edit: Callable[[Tensors], object], kind: type[HeadraceError], said: str
) -> None:
    case.change(edit)
    case.refused(kind, said)


def test_pickled_weights_are_never_read(case: Case) -> None:
    (case.folder / "adapter_model.safetensors").rename(case.folder / "adapter_model.bin")
    case.refused(InvalidCheckpoint, "adapter_model.bin", "pickle")


def test_files_that_are_missing(case: Case) -> None:
    (case.folder / "adapter_model.safetensors").unlink()
    case.refused(InvalidCheckpoint, "adapter_model.safetensors is missing")
    (case.folder / "adapter_config.json").unlink()
    case.refused(InvalidCheckpoint, "adapter_config.json is missing")
