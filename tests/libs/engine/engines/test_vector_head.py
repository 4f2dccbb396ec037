"""Dense layers behind pooling: what torch computes of the same hidden states."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tests.libs.engine.engine_running import engine_config
from tests.libs.engine.tiny_encoders import (
    add_dense,
    hidden_states,
    make_decoder,
    make_encoder,
    pooled,
    write_sentence_settings,
)
from torch.nn import Linear, functional

from headrace.engine.checkpoints.facts.pooling import Pooling
from headrace.engine.contract.engine import Engine
from headrace.engine.contract.request import EngineRequest, SamplingParams
from headrace.engine.engines.dense_layer import DenseFunction, DenseLayer, DenseNorm
from headrace.engine.engines.vector_head import VectorHead
from headrace.engine.loading.load_engine import load_engine
from headrace.errors import InvalidCheckpoint, Unsupported

PROMPT = (5, 9, 17, 30, 2)


def embed(engine: Engine) -> torch.Tensor:
    engine.add(EngineRequest("one", PROMPT, SamplingParams()))
    (delta,) = engine.step()
    return torch.tensor(delta.embedding)


def load(folder: Path) -> Engine:
    return load_engine(folder, engine_config(thread_count=1, block_count=64))


@pytest.mark.parametrize("kind", ["encoder", "decoder"])
@torch.no_grad()
def test_dense_layers_come_between_pooling_and_normalizing(kind: str, tmp_path: Path) -> None:
    pooling = "mean" if kind == "encoder" else "lasttoken"
    model = make_encoder(tmp_path, "bert") if kind == "encoder" else make_decoder(tmp_path)
    write_sentence_settings(tmp_path, pooling=pooling)
    wide, narrow = Linear(64, 96, bias=False), Linear(96, 24)
    add_dense(tmp_path, wide, narrow)
    engine = load(tmp_path)
    vector = pooled(hidden_states(model, PROMPT), pooling, normalizes=False)
    expected = functional.normalize(narrow(wide(vector)), dim=0)
    assert engine.spec.embedding_size == 24
    assert torch.allclose(embed(engine), expected, rtol=0, atol=1e-5)


@torch.no_grad()
def test_a_dense_layer_has_its_activation(tmp_path: Path) -> None:
    model, layer = make_encoder(tmp_path, "bert"), Linear(64, 32)
    write_sentence_settings(tmp_path, pooling="cls", normalizes=False)
    add_dense(tmp_path, layer, activation="activation.Tanh")
    expected = torch.tanh(layer(pooled(hidden_states(model, PROMPT), "cls", normalizes=False)))
    assert torch.allclose(embed(load(tmp_path)), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("function", "oracle"), [("tanh", torch.tanh), ("relu", torch.relu), ("gelu", functional.gelu)]
)
@torch.no_grad()
def test_a_norm_follows_the_activation(function: DenseFunction, oracle: Callable[[torch.Tensor], torch.Tensor]) -> None:
    layer, weight = Linear(64, 16), torch.rand(16)
    dense = DenseLayer(layer.weight.numpy(), layer.bias.numpy(), function, DenseNorm(weight.numpy(), None, 1e-5))
    hidden = torch.randn(3, 64)
    found = VectorHead(Pooling.MEAN, (dense,))(hidden.numpy())
    expected = functional.layer_norm(oracle(layer(hidden.mean(dim=0))), (16,), weight, eps=1e-5)
    assert torch.allclose(torch.tensor(found), expected, rtol=0, atol=1e-5)


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    make_encoder(tmp_path, "bert")
    write_sentence_settings(tmp_path)
    add_dense(tmp_path, Linear(64, 32), activation="activation.SiLU")
    with pytest.raises(Unsupported, match="activation SiLU is not supported"):
        load(tmp_path)
    file = tmp_path / "2_Dense" / "config.json"
    file.write_text(json.dumps({"in_features": 63, "out_features": 32, "activation_function": "Tanh"}))
    with pytest.raises(InvalidCheckpoint, match="a dense layer from 63 to 32 elements cannot be"):
        load(tmp_path)
    modules = json.loads((tmp_path / "modules.json").read_text())
    (tmp_path / "modules.json").write_text(json.dumps([modules[0], modules[2], modules[1], modules[3]]))
    with pytest.raises(Unsupported, match=r"module Dense of modules\.json is not supported there"):
        load(tmp_path)
