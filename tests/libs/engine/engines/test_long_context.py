"""Streams that go on past the context's end: what the model reads is a function of the text, and so is what follows."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from tests.libs.engine.determinism.covering_array import cover_pairs
from tests.libs.engine.determinism.test_one_text import (
    FACTORS,
    SEEDS,
    TINY_FACTORS,
    USUAL,
    alone,
    load,
    run_in_order,
    tiny_requests,
)
from tests.libs.engine.engine_running import finish, request, run, tokens, without_step_times
from tests.libs.engine.tiny_models import make_family, make_prompts

from headrace.demo_model import CHECKPOINT
from headrace.engine.batching.eviction import MIN_CONTEXT, SINK_COUNT, dropped_count
from headrace.engine.contract.grammar import Grammar, GrammarKind
from headrace.engine.contract.request import EngineRequest, FinishReason
from headrace.errors.tree import ConfigError, InvalidRequest
from headrace.tokenizer.text.text_model import TextModel

CONTEXT = 120
EVICT = {"long_context": "evict", "max_model_length": CONTEXT}


@pytest.fixture(scope="module", params=["llama", "mistral"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(request.param)
    make_family(folder, request.param)
    return folder


def long_requests() -> list[EngineRequest]:
    samplings: Iterable[dict[str, Any]] = (
        {"temperature": 0.0},
        {"seed": 3, "top_p": 0.9},
        {"temperature": 0.0, "repetition_penalty": 1.2, "frequency_penalty": 0.3},
        {"seed": 4, "top_k": 30, "min_tokens": 200},
        {"seed": 5, "presence_penalty": 0.3},
    )
    return [
        request(each.request_id, each.prompt_token_ids, max_tokens=220, logprob_count=1, **sampling)
        for each, sampling in zip(tiny_requests(), samplings, strict=True)
    ]


@pytest.mark.parametrize("max_model_length", [MIN_CONTEXT, 65, 120, 2048])
def test_what_is_read_always_fits_and_keeps_half_of_the_context(max_model_length: int) -> None:
    points = 0
    for token_count in range(1, 5 * max_model_length):
        dropped, before = dropped_count(token_count, max_model_length), dropped_count(token_count - 1, max_model_length)
        read = token_count - dropped
        assert read < max_model_length
        assert dropped == 0 or read >= SINK_COUNT + (max_model_length - SINK_COUNT) // 2
        assert dropped >= before
        points += dropped > before
    assert points < 5 * max_model_length // (max_model_length // 3)


@pytest.mark.slow
@pytest.mark.parametrize("kernels", ["auto", "torch"])
def test_each_token_follows_from_the_sinks_and_the_last_tokens(folder: Path, kernels: str) -> None:
    """Asked for one token after just that text, a fresh engine chooses the same with the same log-probability."""
    (prompt,) = make_prompts((30,))
    each = request("r", prompt, max_tokens=330, temperature=0.0, logprob_count=3)
    found, logprobs = alone(folder, kernels, [each], EVICT)["r"]
    assert len(found) == 330
    plain = load(folder, kernels, USUAL)
    for index in (0, 88, 89, 90, 91, 141, 142, 143, 200, 329):
        text = (*prompt, *found[:index])
        dropped = dropped_count(len(text), CONTEXT)
        context = text[:SINK_COUNT] + text[SINK_COUNT + dropped :]
        plain.add(request("one", context, max_tokens=1, temperature=0.0, logprob_count=3))
        (delta,) = finish(plain)["one"]
        assert (delta.token_ids, delta.logprobs) == ((found[index],), (logprobs[index],)), index


@pytest.mark.slow
@pytest.mark.parametrize("kernels", ["auto", "torch"])
def test_circumstances_change_nothing(folder: Path, kernels: str) -> None:
    requests = long_requests()
    expected = alone(folder, kernels, requests, EVICT)
    assert {len(found) for found, _ in expected.values()} == {220}
    preemption_count = 0
    rows = cover_pairs(TINY_FACTORS, seed=SEEDS["tiny"])
    for row in rows if kernels == "auto" else rows[::2]:
        engine = load(folder, kernels, row, EVICT)
        assert run_in_order(engine, requests, str(row["order"])) == expected, row
        assert engine.stats().used_block_count == 0
        preemption_count += engine.stats().preemption_count
    assert preemption_count > 0


@pytest.mark.slow
def test_guesses_of_a_draft_model_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    without_step_times(monkeypatch)
    model = TextModel("m", CHECKPOINT)
    beginning = "Throughput is the number of output tokens or requests that"
    text = f"{beginning} the server finishes per second. Larger batches raise it, but each request may become slower, "
    prompt = model.encode(f"{text}so latency and throughput are balanced.\n\n{beginning}", True)
    usual: dict[str, Any] = {"max_tokens": 260, "ignore_eos": True, "logprob_count": 1}
    requests = [request("greedy", prompt, temperature=0.0, **usual), request("sampled", prompt, seed=1, **usual)]
    expected = alone(CHECKPOINT, "auto", requests, EVICT)
    for speculation in FACTORS["speculation"]:
        engine = load(CHECKPOINT, "auto", USUAL | {"speculation": speculation}, EVICT)
        assert run_in_order(engine, requests, "together") == expected
        assert (engine.stats().accepted_token_count > 10) == (speculation != "off")
        engine.close()


@pytest.mark.slow
def test_another_worker_goes_on_from_any_token(folder: Path) -> None:
    (each,) = (each for each in long_requests() if each.request_id == "4")
    whole = run(load(folder, "auto", USUAL, EVICT), each)["4"]
    cuts = (1, 8, 9, 10, 11, 61, 62, 63, 200, 219)
    engine = load(folder, "auto", USUAL, EVICT)
    for cut in cuts:
        engine.add(EngineRequest(str(cut), each.prompt_token_ids, each.sampling, tuple(whole[:cut])))
    streams = finish(engine)
    for cut in cuts:
        assert streams[str(cut)][0].first_index == cut
        assert tokens(streams[str(cut)]) == whole[cut:], cut


def test_stop_ids_and_grammars_see_the_whole_output(folder: Path) -> None:
    (prompt,) = make_prompts((30,))
    plain = run(load(folder, "auto", USUAL, EVICT), request("r", prompt, max_tokens=300, seed=1))["r"]
    stop = next(token_id for token_id in plain[150:] if token_id not in plain[:150])
    engine = load(folder, "auto", USUAL, EVICT)
    engine.add(request("r", prompt, max_tokens=300, seed=1, stop_token_ids=frozenset({stop})))
    stream = finish(engine)["r"]
    assert tokens(stream) == plain[: plain.index(stop) + 1]
    assert stream[-1].finish_reason is FinishReason.STOP


def test_a_json_document_longer_than_the_context_is_valid() -> None:
    model = TextModel("m", CHECKPOINT)
    schema = {"type": "array", "items": {"enum": ["alpha", "beta", "gamma"]}, "minItems": 60, "maxItems": 60}
    grammar = Grammar(GrammarKind.JSON_SCHEMA, json.dumps(schema))
    each = request("r", model.encode("A list: ", True), max_tokens=1000, grammar=grammar, temperature=0.0)
    found, _ = alone(CHECKPOINT, "auto", [each], EVICT)["r"]
    assert len(found) > CONTEXT
    assert len(json.loads(model._tokenizer.decode(found))) == 60


def test_only_the_output_may_exceed_the_context(folder: Path) -> None:
    (prompt,) = make_prompts((CONTEXT,))
    engine = load(folder, "auto", USUAL, EVICT)
    with pytest.raises(InvalidRequest, match="context"):
        engine.add(request("r", prompt, max_tokens=1))
    assert len(run(engine, request("r", prompt[:-1], max_tokens=200))["r"]) == 200
    stops = load(folder, "auto", USUAL, {"max_model_length": CONTEXT})
    assert len(run(stops, request("r", prompt[:-1], max_tokens=200))["r"]) == 1


def test_a_prompt_is_scored_as_ever(folder: Path) -> None:
    (prompt,) = make_prompts((CONTEXT,))
    engine = load(folder, "auto", USUAL, EVICT)
    engine.add(request("r", prompt, max_tokens=0, prompt_logprob_count=0))
    (delta,) = finish(engine)["r"]
    assert delta.prompt_logprobs is not None
    assert len(delta.prompt_logprobs) == CONTEXT


def test_a_context_with_room_for_little_more_than_the_sinks_is_refused(folder: Path) -> None:
    with pytest.raises(ConfigError, match="long_context"):
        load(folder, "auto", USUAL, {"long_context": "evict", "max_model_length": MIN_CONTEXT - 1})
