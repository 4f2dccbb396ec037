"""Layers that differ keep as many keys and values as they have, and what cannot split them refuses them by name."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.libs.engine.checkpoints.families.oracles import finish_all, load, prompt_logits
from tests.libs.engine.engine_running import engine_config, request, tokens
from tests.libs.engine.tiny_models import make_family, make_prompts

from headrace.engine.checkpoints.facts.layers.head_sizes import HeadSizes
from headrace.engine.checkpoints.layout.model_shape import model_shape
from headrace.engine.checkpoints.model_config import read_model_config
from headrace.engine.kv.block_store import store_of
from headrace.engine.loading.load_text_engine import load_text_engine
from headrace.errors import ConfigError, InvalidCheckpoint, Unsupported
from headrace.planning.footprint import list_footprints
from headrace.planning.roofline import attention_launch

PROMPTS = make_prompts((3, 40, 150))
GEMMA4 = ("gemma4", "gemma4_moe")


def rewrite(folder: Path, **settings: Any) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | settings))


def test_layers_without_a_window_have_heads_of_their_own(tmp_path: Path) -> None:
    make_family(tmp_path, "gemma4_moe")
    config = read_model_config(tmp_path)
    assert [config.heads(index) for index in (0, 1)] == [HeadSizes(2, 16, 16), HeadSizes(1, 32, 32)]
    rewrite(tmp_path, per_layer_config=None, global_head_dim=32, num_global_key_value_heads=1)
    assert read_model_config(tmp_path) == config


@pytest.mark.parametrize("name", GEMMA4)
def test_memory_is_counted_as_the_layers_have_it(name: str, tmp_path: Path) -> None:
    make_family(tmp_path, name)
    config = read_model_config(tmp_path)
    engine = load(tmp_path)
    spec, footprint = engine.spec, list_footprints(config, "cpu")[0]
    per_token = spec.memory.kv_bytes // (spec.block_count * spec.block_size)
    # Two layers of each kind keep keys and values where the last two share them, else three.
    kept = 2 if name == "gemma4" else 3
    full_heads = 2 if name == "gemma4" else 1
    assert per_token == kept * 2 * 4 * (2 * 16 + full_heads * 32) == footprint.kv_bytes_per_token
    assert spec.cost is not None
    assert spec.cost.token_bytes == per_token
    assert spec.cost.pair_operations == 4 * 4 * 3 * (16 + 32)
    assert footprint.shape.parameter_count == spec.parameter_count == model_shape(config).parameter_count
    assert footprint.weight_bytes == spec.memory.weight_bytes
    narrow, wide = (attention_launch(footprint, layer, 1, 100, 1).operations for layer in (0, 1))
    assert wide / narrow == pytest.approx(2 * 100 / 24)


def test_tables_of_inputs_keep_the_precision_of_the_checkpoint(tmp_path: Path) -> None:
    """They are half of the smaller models."""
    make_family(tmp_path, "gemma4")
    file = tmp_path / "model.safetensors"
    halves = {name: tensor.bfloat16() for name, tensor in load_file(file).items()}
    save_file({name: tensor.float() for name, tensor in halves.items()}, file)
    whole = load(tmp_path)
    expected = prompt_logits(whole, PROMPTS[1])
    save_file(halves, file)
    rewrite(tmp_path, dtype="bfloat16")
    engine = load(tmp_path)
    assert torch.equal(prompt_logits(engine, PROMPTS[1]), expected)
    table = read_model_config(tmp_path).input_table_size
    assert table == 199 * 6 * 8
    assert whole.spec.memory.weight_bytes - engine.spec.memory.weight_bytes == 2 * table
    assert list_footprints(read_model_config(tmp_path), "cpu")[0].weight_bytes == engine.spec.memory.weight_bytes
    assert engine.spec.cost is not None
    assert engine.spec.cost.token_operations == 2 * (engine.spec.parameter_count - table)


@pytest.mark.parametrize("name", ["gemma3n", "gemma3n_dense"])
def test_streams_are_planned_as_they_are_read(name: str, tmp_path: Path) -> None:
    make_family(tmp_path, name)
    engine, footprint = load(tmp_path), list_footprints(read_model_config(tmp_path), "cpu")[0]
    assert footprint.shape.parameter_count == engine.spec.parameter_count
    assert footprint.weight_bytes == engine.spec.memory.weight_bytes
    per_token = engine.spec.memory.kv_bytes // (engine.spec.block_count * engine.spec.block_size)
    assert footprint.kv_bytes_per_token == per_token == (4 if name == "gemma3n" else 6) * 2 * 2 * 16 * 4


def test_gemma3n_is_read_from_a_model_that_sees_and_hears(tmp_path: Path) -> None:
    make_family(tmp_path, "gemma3n")
    alone = prompt_logits(load(tmp_path), PROMPTS[1])
    tensors, config = load_file(tmp_path / "model.safetensors"), json.loads((tmp_path / "config.json").read_text())
    nested = {f"model.language_model.{name.removeprefix('model.')}": value for name, value in tensors.items()}
    save_file({**nested, "model.vision_tower.stem.weight": torch.zeros(2)}, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(
        json.dumps({"architectures": ["Gemma3nForConditionalGeneration"], "text_config": config})
    )
    assert torch.equal(prompt_logits(load(tmp_path), PROMPTS[1]), alone)


@pytest.mark.parametrize("name", [*GEMMA4, "gemma3n"])
def test_prefixes_and_preemption_change_nothing(name: str, tmp_path: Path) -> None:
    make_family(tmp_path, name)
    sampling: dict[str, Any] = {"max_tokens": 30, "temperature": 0.0, "logprob_count": 2}
    requests = [request(str(at), prompt, **sampling) for at, prompt in enumerate((*PROMPTS, PROMPTS[2] + PROMPTS[0]))]
    engine = load(tmp_path, prefix_cache=False, max_step_token_count=512)
    alone = {each.request_id: finish_all(engine, [each])[each.request_id] for each in requests}
    for settings in ({"max_step_token_count": 16}, {"block_count": 21}):
        engine = load(tmp_path, max_model_length=256, **settings)
        for round_ in range(2):
            random.Random(round_).shuffle(requests)
            for key, found in finish_all(engine, requests).items():
                assert tokens(found) == tokens(alone[key])
                assert [d.logprobs for d in found] == [d.logprobs for d in alone[key]]
        stats = engine.stats()
        assert (stats.preemption_count if "block_count" in settings else stats.prefix_hit_token_count) > 0


def test_blocks_travel_with_the_keys_of_all_layers(tmp_path: Path) -> None:
    make_family(tmp_path, "gemma4")
    engine, other = load(tmp_path), load(tmp_path)
    finish_all(engine, [request("0", PROMPTS[2], max_tokens=2, temperature=0.0)])
    store, empty = store_of(engine._runner), store_of(other._runner)
    assert store is not None
    assert empty is not None
    assert store.layout == empty.layout
    blocks = list(range(8))
    contents = store.read(blocks)
    assert {len(content) for content in contents} == {store.block_bytes}
    assert any(any(content) for content in contents)
    empty.write(blocks, contents)
    assert empty.read(blocks) == contents


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"tensor_parallel_count": 2}, Unsupported, "set the parallel counts to 1"),
        ({"pipeline_parallel_count": 2}, Unsupported, "set the parallel counts to 1"),
        ({"kv_precision": "fp8"}, ConfigError, "which auto means here"),
        ({"cuda_graphs": "on"}, ConfigError, "heads of several sizes"),
    ],
)
def test_what_cannot_split_layers_refuses_them(
    settings: dict[str, Any], error: type[Exception], message: str, tmp_path: Path
) -> None:
    make_family(tmp_path, "gemma4")
    with pytest.raises(error, match=message):
        load_text_engine(tmp_path, engine_config(**settings))


@pytest.mark.parametrize(
    ("name", "settings", "error", "message"),
    [
        ("gemma4", {"use_bidirectional_attention": "all"}, Unsupported, "only 'vision'"),
        ("gemma4", {"num_kv_shared_layers": 5}, InvalidCheckpoint, "leaves no keys for"),
        ("gemma4", {"per_layer_config": {"5": {"head_dim": 8}}}, InvalidCheckpoint, "other sizes"),
        ("gemma4", {"per_layer_config": {"1": {"head_dim": 7}}}, InvalidCheckpoint, "heads of 7"),
        ("gemma4", {"layer_types": ["full_attention"]}, InvalidCheckpoint, "1 entries for 6 layers"),
        ("gemma4", {"num_kv_shared_layers": None}, InvalidCheckpoint, "malformed"),
        ("gemma3n", {"activation_sparsity_pattern": [0.5]}, InvalidCheckpoint, "1 entries for 6 layers"),
        ("gemma3n", {"activation_sparsity_pattern": [1.0] * 6}, InvalidCheckpoint, "from 0 to 1"),
        ("gemma3n", {"intermediate_size": [100] * 5}, InvalidCheckpoint, "5 entries for 6 layers"),
        ("gemma3n", {"altup_active_idx": 4}, InvalidCheckpoint, "of 4 streams"),
        ("gemma3n", {"hidden_size_per_layer_input": 0}, InvalidCheckpoint, "layers of Gemma 3n need inputs"),
    ],
)
def test_settings_that_fit_no_layer_are_refused(
    name: str, settings: dict[str, Any], error: type[Exception], message: str, tmp_path: Path
) -> None:
    make_family(tmp_path, name)
    rewrite(tmp_path, **settings)
    with pytest.raises(error, match=message):
        read_model_config(tmp_path)
