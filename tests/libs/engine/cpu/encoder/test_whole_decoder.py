"""Decoders whose tokens see all others, as EmbeddingGemma's do: the vectors of transformers, in any batch."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.libs.engine.engine_running import engine_config
from tests.libs.engine.needed_kernels import needs_kernels
from tests.libs.engine.tiny_encoders import add_dense, hidden_states, pooled, write_sentence_settings
from tests.libs.engine.tiny_models import make_family, make_prompts
from torch.nn import Linear, functional
from transformers import AutoModel, PreTrainedModel

from headrace.engine.contract.engine import Engine
from headrace.engine.contract.request import EngineRequest, SamplingParams
from headrace.engine.engines.encoder_engine import EncoderEngine
from headrace.engine.loading.load_engine import load_engine
from headrace.errors import Unsupported

pytestmark = needs_kernels
PROMPTS = make_prompts((1, 2, 3, 16, 17, 64, 65, 129, 300, 511))
SIZES: dict[str, Any] = {"head_dim": 32, "intermediate_size": 96, "num_key_value_heads": 1, "num_attention_heads": 2}


def make_model(folder: Path, **settings: Any) -> PreTrainedModel:
    """Saves a random model as EmbeddingGemma is saved: without a head, with pooling by the mean."""
    make_family(folder, "gemma3", **(SIZES | {"use_bidirectional_attention": True} | settings)).model.save_pretrained(
        folder
    )
    write_sentence_settings(folder)
    return AutoModel.from_pretrained(folder).eval()


def load(folder: Path, **settings: Any) -> Engine:
    return load_engine(folder, engine_config(**({"thread_count": 1, "max_step_token_count": 64} | settings)))


def embed(engine: Engine, *prompts: tuple[int, ...]) -> list[tuple[float, ...]]:
    for index, prompt in enumerate(prompts):
        engine.add(EngineRequest(str(index), prompt, SamplingParams()))
    found: dict[str, tuple[float, ...]] = {}
    while engine.has_work():
        found |= {delta.request_id: delta.embedding for delta in engine.step()}
    return [found[str(index)] for index in range(len(prompts))]


@pytest.mark.parametrize("window", [7, 32, 4096])
@torch.no_grad()
def test_vectors_equal_transformers(window: int, tmp_path: Path) -> None:
    model = make_model(tmp_path, sliding_window=window)
    wide, narrow = Linear(64, 128, bias=False), Linear(128, 48, bias=False)
    add_dense(tmp_path, wide, narrow)
    engine = load(tmp_path)
    assert isinstance(engine, EncoderEngine)
    assert (engine.spec.embedding_size, engine.spec.architecture) == (48, "Gemma3TextModel")
    for prompt, found in zip(PROMPTS, embed(engine, *PROMPTS), strict=True):
        vector = pooled(hidden_states(model, prompt), "mean", normalizes=False)
        expected = functional.normalize(narrow(wide(vector)), dim=0)
        assert torch.allclose(torch.tensor(found), expected, rtol=0, atol=1e-4), len(prompt)


@pytest.mark.parametrize("precision", ["auto", "int8"])
def test_batch_and_threads_change_no_bit(precision: str, tmp_path: Path) -> None:
    make_model(tmp_path)
    engine = load(tmp_path, precision=precision)
    alone = [embed(engine, prompt)[0] for prompt in PROMPTS]
    assert embed(engine, *PROMPTS) == alone
    assert embed(engine, *reversed(PROMPTS)) == alone[::-1]
    assert embed(load(tmp_path, precision=precision, thread_count=2, max_step_token_count=2048), *PROMPTS) == alone


def test_a_token_sees_those_after_it(tmp_path: Path) -> None:
    make_model(tmp_path)
    write_sentence_settings(tmp_path, pooling="cls")
    engine = load(tmp_path)
    assert embed(engine, (1, 2, 3)) != embed(engine, (1, 2, 4))


def test_what_cannot_run_is_refused_by_name(tmp_path: Path) -> None:
    make_model(tmp_path)
    with pytest.raises(Unsupported, match="bidirectional attention is computed by the fused kernels of the CPU alone"):
        load(tmp_path, kernels="torch")
    (tmp_path / "modules.json").unlink()
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"architectures": ["Gemma3ForCausalLM"]}))
    with pytest.raises(Unsupported, match="makes embeddings and no text"):
        load(tmp_path)
