"""A head follows a text through all that can happen to it: what it drafts is what it would draft for the text alone."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from tests.libs.engine.cpu.draft_head.eagle_reference import make_head
from tests.libs.engine.cpu.draft_head.headed_models import (
    PROMPTS,
    check_drafts,
    embedding_of,
    greedy,
    make_target,
    outputs_without,
)
from tests.libs.engine.engine_running import request, run
from tests.libs.engine.speculation.drafters.always_head import load_with_head
from transformers import PreTrainedModel

from headrace.engine.speculation.drafters import rest


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, PreTrainedModel]:
    folder = tmp_path_factory.mktemp("target")
    return folder, make_target(folder)


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
    check_drafts(drafter, model, reference)


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
    check_drafts(drafter, model, reference)


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
    check_drafts(drafter, model, reference)


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
    check_drafts(drafter, model, reference)


def test_a_head_rests_while_draft_tokens_cannot_pay(
    target: tuple[Path, PreTrainedModel], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, model = target
    reference = make_head(tmp_path, embedding_of(model))
    engine, drafter = load_with_head(folder, tmp_path)
    monkeypatch.setattr(rest, "AWAKE_STEPS", 20)
    monkeypatch.setattr(rest, "FIRST_REST", 4)
    monkeypatch.setattr(rest, "MAX_REST", 4)
    drafter.head._rest = rest.Rest()
    (wanted,) = requests = greedy(PROMPTS[0], max_tokens=80)
    expected = outputs_without(folder, *requests)
    turn = itertools.count()
    monkeypatch.setattr(drafter, "may_pay", lambda *_: not 5 < next(turn) < 30)
    assert run(engine, wanted) == expected
    firsts = {seen.first for seen in drafter.seen}
    assert min(firsts) == 0
    assert len(firsts) == 2
    check_drafts(drafter, model, reference)
