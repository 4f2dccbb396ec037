"""A head drafts what the plain arithmetic says, from the hidden states of transformers, and changes no token."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.libs.engine.engine_running import engine_config, request, run
from tests.libs.engine.speculation.heads.always_head import COUNT, AlwaysHead, load_with_head
from tests.libs.engine.speculation.heads.eagle_reference import EagleReference, make_head
from tests.libs.engine.tiny_models import make_family, make_prompts, save_random
from transformers import PreTrainedModel

from headrace.engine.contract.request import EngineRequest
from headrace.engine.loading.load_text_engine import load_text_engine

LAYER_COUNT, LAYERS = 6, (2, 3, 3)
PROMPTS = make_prompts((70, 5, 33), seed=4)
HEADS: dict[str, dict[str, Any]] = {
    "usual layers": {},
    "own embedding": {"has_embedding": True, "normalizes_residual": True},
    "narrower": {"hidden_size": 48},
    "other layout": {"layout": "eagle", "layers": (1, 3, 5)},
}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, PreTrainedModel]:
    folder = tmp_path_factory.mktemp("target")
    settings = {"model_type": "llama", "num_hidden_layers": LAYER_COUNT, "num_attention_heads": 4}
    return folder, save_random(folder, settings)


def embedding_of(model: PreTrainedModel) -> torch.Tensor:
    weight: torch.Tensor = model.get_input_embeddings().weight.detach()
    return weight


@torch.inference_mode()
def states_of(model: PreTrainedModel, context: list[int], layers: tuple[int, ...]) -> torch.Tensor:
    hidden = model(torch.tensor([context[:-1]]), output_hidden_states=True).hidden_states
    return torch.cat([hidden[layer][0] for layer in layers], dim=1)


def check_drafts(
    drafter: AlwaysHead, model: PreTrainedModel, reference: EagleReference, layers: tuple[int, ...]
) -> None:
    for context, first, drafted in drafter.seen:
        states = states_of(model, context, layers)[first:]
        assert list(drafted) == reference.draft(context[first:], states, len(drafted)), len(context)


def outputs_without(folder: Path, *requests: EngineRequest, **settings: Any) -> dict[str, list[int]]:
    usual: dict[str, Any] = {"exact": True, "block_count": 64, "thread_count": 1}
    engine = load_text_engine(folder, engine_config(**(usual | settings)))
    found = run(engine, *requests)
    engine.close()
    return found


def greedy(*prompts: tuple[int, ...], max_tokens: int = 24) -> list[EngineRequest]:
    return [request(str(index), prompt, max_tokens=max_tokens, temperature=0) for index, prompt in enumerate(prompts)]


@pytest.mark.parametrize("name", HEADS)
def test_a_head_drafts_what_the_arithmetic_says(
    name: str, target: tuple[Path, PreTrainedModel], tmp_path: Path
) -> None:
    folder, model = target
    reference = make_head(tmp_path, embedding_of(model), **HEADS[name])
    engine, drafter = load_with_head(folder, tmp_path)
    requests = greedy(*PROMPTS, max_tokens=9)
    assert run(engine, *requests) == outputs_without(folder, *requests)
    assert len(drafter.seen) > len(PROMPTS)
    assert max(len(seen.drafted) for seen in drafter.seen) == COUNT
    check_drafts(drafter, model, reference, HEADS[name].get("layers") or LAYERS)


@pytest.mark.parametrize(
    "settings",
    [{"max_step_token_count": 16}, {"block_count": 11}, {"prefix_cache": False}, {"max_running_count": 2}],
    ids=str,
)
def test_drafts_that_are_right_wrong_and_both_leave_the_head_where_the_text_is(
    settings: dict[str, Any], target: tuple[Path, PreTrainedModel], tmp_path: Path
) -> None:
    """In small steps, with sequences that lose their blocks, and with few at a time."""
    folder, model = target
    reference = make_head(tmp_path, embedding_of(model))
    engine, drafter = load_with_head(folder, tmp_path, **settings)
    requests = greedy(*PROMPTS)
    expected = outputs_without(folder, *requests)
    drafter.texts = expected
    assert run(engine, *requests) == expected
    stats = engine.stats()
    assert 0 < stats.accepted_token_count < stats.draft_token_count
    assert bool(stats.preemption_count) == ("block_count" in settings)
    check_drafts(drafter, model, reference, LAYERS)


def test_a_prompt_that_is_shared_is_drafted_for_as_if_it_had_been_read(
    target: tuple[Path, PreTrainedModel], tmp_path: Path
) -> None:
    folder, model = target
    reference = make_head(tmp_path, embedding_of(model))
    engine, drafter = load_with_head(folder, tmp_path)
    first, second = greedy(PROMPTS[0], (*PROMPTS[0][:65], 7, 8, 9))
    run(engine, first)
    drafter.seen.clear()
    assert run(engine, second) == outputs_without(folder, second)
    assert engine.stats().prefix_hit_token_count == 64
    assert {seen.first for seen in drafter.seen} == {0}
    check_drafts(drafter, model, reference, LAYERS)


def test_where_the_head_has_not_read_the_beginning_its_context_begins_later(
    target: tuple[Path, PreTrainedModel], tmp_path: Path
) -> None:
    folder, model = target
    reference = make_head(tmp_path, embedding_of(model))
    engine, drafter = load_with_head(folder, tmp_path)
    first, second = greedy(PROMPTS[0], (*PROMPTS[0][:48], 7, 8, 9))
    run(engine, first)
    drafter.seen.clear()
    drafter.head._filled.clear()
    assert run(engine, second) == outputs_without(folder, second)
    assert {seen.first for seen in drafter.seen} == {48}
    check_drafts(drafter, model, reference, LAYERS)


def test_a_text_beyond_the_context_of_the_head_gets_no_drafts(
    target: tuple[Path, PreTrainedModel], tmp_path: Path
) -> None:
    folder, model = target
    make_head(tmp_path, embedding_of(model))
    config = json.loads((tmp_path / "config.json").read_text())
    config["transformer_layer_config"]["max_position_embeddings"] = 48
    (tmp_path / "config.json").write_text(json.dumps(config))
    engine, drafter = load_with_head(folder, tmp_path)
    requests = greedy(*PROMPTS, max_tokens=60)
    assert run(engine, *requests) == outputs_without(folder, *requests)
    assert max(len(seen.context) + len(seen.drafted) for seen in drafter.seen) == 48
    assert not drafter.head._progress


@pytest.mark.parametrize("settings", [{}, {"exact": False, "kv_precision": "int8"}], ids=str)
def test_draws_with_a_seed_are_those_without_a_head(
    settings: dict[str, Any], target: tuple[Path, PreTrainedModel], tmp_path: Path
) -> None:
    folder, model = target
    make_head(tmp_path, embedding_of(model))
    engine, drafter = load_with_head(folder, tmp_path, **settings)
    requests = [
        request(str(index), prompt, max_tokens=20, seed=index, temperature=1.2, top_p=0.9, presence_penalty=0.4)
        for index, prompt in enumerate(PROMPTS)
    ]
    expected = outputs_without(folder, *requests, **settings)
    drafter.texts = expected
    assert run(engine, *requests) == expected
    assert engine.stats().accepted_token_count


@pytest.mark.parametrize("family", ["lfm2", "qwen3_next", "deepseek2", "gemma2", "gemma4", "gpt_oss"])
def test_heads_draft_for_every_kind_of_layer(family: str, tmp_path: Path) -> None:
    """With states, latent attention, experts, windows and a scaled embedding; fused and layer by layer."""
    model = make_family(tmp_path / "target", family)
    layers = (1, 2, 2)
    reference = make_head(tmp_path / "head", embedding_of(model), layers=layers)
    engine, drafter = load_with_head(tmp_path / "target", tmp_path / "head")
    requests = greedy(*PROMPTS, max_tokens=12)
    expected = outputs_without(tmp_path / "target", *requests)
    drafter.texts = expected
    assert run(engine, *requests) == expected
    assert engine.stats().accepted_token_count
    check_drafts(drafter, model, reference, layers)


def test_a_head_sleeps_and_wakes_with_its_model(target: tuple[Path, PreTrainedModel], tmp_path: Path) -> None:
    folder, model = target
    reference = make_head(tmp_path, embedding_of(model))
    engine, drafter = load_with_head(folder, tmp_path)
    (wanted,) = requests = greedy(PROMPTS[0])
    expected = outputs_without(folder, *requests)
    assert run(engine, wanted) == expected
    engine.sleep()
    engine.wake()
    drafter.seen.clear()
    assert run(engine, wanted) == expected
    check_drafts(drafter, model, reference, LAYERS)
