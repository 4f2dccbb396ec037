"""Guessing changes how many tokens a step confirms, and nothing else: the tokens are those without it, bit for bit."""

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from tests.libs.engine.engine_running import engine_config, finish, request, run, tokens, without_step_times

from headrace.demo_model import CHECKPOINT, DRAFT, DRAFT_HEAD
from headrace.domain.conversation import Conversation
from headrace.domain.message import Message
from headrace.engine.contract.grammar import Grammar, GrammarKind
from headrace.engine.engines.text_engine import TextEngine
from headrace.engine.loading.load_text_engine import load_text_engine
from headrace.engine.speculation import step_cost
from headrace.tokenizer.text.text_model import TextModel

MODEL = TextModel("m", CHECKPOINT)
QUESTION = Message("user", "What is continuous batching?")
ANSWER = Message(
    "assistant",
    "Continuous batching adds new requests to the running batch at every step and removes finished ones at "
    "once. No request waits for the longest one in its batch, so the accelerator stays busy and throughput rises "
    "while latency stays low.",
)
CHAT = MODEL.encode(MODEL.render(Conversation((QUESTION,))), False)
COPY = MODEL.encode(
    MODEL.render(
        Conversation(
            (
                QUESTION,
                ANSWER,
                QUESTION,
            )
        )
    ),
    False,
)
PROMPTS = {"copy": COPY, "chat": CHAT, "both": CHAT + COPY}


MODES: dict[str, dict[str, Any]] = {
    "off": {"speculation": "off"},
    "ngram": {"speculation": "on"},
    "draft": {"speculation": "on", "draft_folder": DRAFT},
    "head": {"speculation": "on", "draft_folder": DRAFT_HEAD},
}


@pytest.fixture(autouse=True)
def _no_step_times(monkeypatch: pytest.MonkeyPatch) -> None:
    without_step_times(monkeypatch)


def engine(speculation: str, **config: Any) -> TextEngine:
    fields = {"block_count": 256, "max_running_count": 8} | MODES[speculation] | config
    return load_text_engine(CHECKPOINT, engine_config(**fields))


def generate(speculation: str, name: str, count: int = 80, **sampling: Any) -> list[int]:
    fields = {"max_tokens": count, "temperature": 0, "ignore_eos": True} | sampling
    asked = request("r", PROMPTS[name], **fields)
    if speculation == "off":
        return run(plain_engine(), asked)["r"]
    made = engine(speculation)
    found = run(made, asked)["r"]
    made.close()
    return found


@cache
def plain_engine() -> TextEngine:
    """Keeps nothing from one text to the next."""
    return engine("off", prefix_cache=False)


@pytest.fixture(scope="module", autouse=True)
def _plain_engine_is_closed() -> Iterator[None]:
    yield
    plain_engine().close()
    plain_engine.cache_clear()


@cache
def plain_tokens(name: str) -> tuple[int, ...]:
    """Returns what the model says without guesses, when it takes the likeliest token."""
    return tuple(generate("off", name))


SAMPLINGS: tuple[dict[str, Any], ...] = (
    {},
    {"temperature": 0.8, "seed": 7},
    {"temperature": 1.5, "seed": 3, "top_p": 0.9, "top_k": 40},
    {"frequency_penalty": 0.5, "repetition_penalty": 1.1},
    {"min_tokens": 40, "ignore_eos": False},
    {"logit_bias": {100: 3.0}},
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "sampling"),
    [*(("copy", each) for each in SAMPLINGS), *((name, each) for name in ("chat", "both") for each in SAMPLINGS[:2])],
)
def test_the_tokens_are_those_without_guesses(name: str, sampling: dict[str, Any]) -> None:
    plain = generate("off", name, **sampling)
    assert generate("ngram", name, **sampling) == plain
    assert generate("draft", name, **sampling) == plain
    assert generate("head", name, **sampling) == plain


def test_copying_takes_fewer_steps() -> None:
    fields: dict[str, Any] = {"max_tokens": 80, "temperature": 0, "ignore_eos": True}
    steps = {}
    for speculation in MODES:
        made = engine(speculation)
        run(made, request("r", COPY, **fields))
        stats = made.stats()
        steps[speculation] = stats.step_count
        if speculation != "off":
            assert stats.accepted_token_count > 20
            assert stats.accepted_token_count <= stats.draft_token_count
        else:
            assert stats.draft_token_count == 0
        made.close()
    assert max(steps["ngram"], steps["draft"]) < 0.7 * steps["off"]


def test_a_draft_model_and_a_draft_head_take_fewer_steps_on_new_text() -> None:
    steps = {}
    for speculation in ("off", "draft", "head"):
        made = engine(speculation)
        run(made, request("r", CHAT, max_tokens=60, temperature=0, ignore_eos=True))
        steps[speculation] = made.stats().step_count
        made.close()
    assert max(steps["draft"], steps["head"]) < 0.7 * steps["off"]


def test_stop_ids_among_the_guesses_end_the_sequence_there() -> None:
    plain = list(plain_tokens("copy"))
    stop = plain[30]
    cut = plain[: plain.index(stop) + 1]
    assert generate("ngram", "copy", stop_token_ids=frozenset({stop})) == cut


@pytest.mark.parametrize("count", [1, 2, 3, 5, 17])
def test_max_tokens_is_never_exceeded(count: int) -> None:
    assert generate("ngram", "copy", count) == list(plain_tokens("copy")[:count])


@pytest.mark.slow
@pytest.mark.parametrize("speculation", ["ngram", "draft"])
def test_batch_preemption_and_small_chunks_change_nothing(speculation: str) -> None:
    """With blocks for half of the sequences."""
    alone = {name: list(plain_tokens(name)[:60]) for name in PROMPTS}
    made = engine(speculation, block_count=40, max_step_token_count=48)
    requests = [
        request(f"{name}-{copy}", PROMPTS[name], max_tokens=60, temperature=0, ignore_eos=True)
        for copy in range(3)
        for name in PROMPTS
    ]
    found = run(made, *requests)
    assert made.stats().preemption_count > 0
    made.close()
    for request_id, generated in found.items():
        assert generated == alone[request_id.split("-")[0]], request_id


@pytest.mark.parametrize("speculation", ["ngram", "draft"])
@pytest.mark.parametrize("sampling", [{"temperature": 0}, {"temperature": 0.9, "top_p": 0.95}])
def test_sequences_that_share_steps_get_the_tokens_that_they_get_alone(
    speculation: str, sampling: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Six at once, some of them with draft tokens, others without, where rows cost next to nothing."""
    monkeypatch.setattr(step_cost, "PRIOR_SLOPE", 0.02)
    fields: dict[str, Any] = {"max_tokens": 50, "ignore_eos": True} | sampling
    requests = [request(f"{name}-{seed}", PROMPTS[name], seed=seed, **fields) for seed in range(2) for name in PROMPTS]
    plain, made = engine("off"), engine(speculation)
    alone = {each.request_id: run(plain, each)[each.request_id] for each in requests}
    assert run(made, *requests) == alone
    assert made.stats().accepted_token_count > 0
    plain.close()
    made.close()


def test_resuming_in_the_middle_goes_on_as_before() -> None:
    plain = list(plain_tokens("copy")[:60])
    for cut in (1, 7, 31, 59):
        made = engine("draft")
        fields = {"max_tokens": 60, "temperature": 0, "ignore_eos": True}
        made.add(request("r", COPY, tuple(plain[:cut]), **fields))
        assert plain[:cut] + tokens(finish(made)["r"]) == plain
        made.close()


def test_logprobs_come_with_every_confirmed_token() -> None:
    found = {}
    for speculation in MODES:
        made = engine(speculation)
        made.add(request("r", COPY, max_tokens=20, temperature=0, logprob_count=2))
        stream = finish(made)["r"]
        assert all(len(delta.logprobs) == len(delta.token_ids) for delta in stream)
        assert (made.stats().accepted_token_count > 0) == (speculation != "off")
        found[speculation] = [logprob for delta in stream for logprob in delta.logprobs]
        made.close()
    assert found["ngram"] == found["off"]
    assert found["draft"] == found["off"]


def test_a_grammar_is_followed_through_guesses() -> None:
    """The grammar forces most tokens; they are confirmed several at a time, and are those without guesses."""
    schema = json.dumps(
        {
            "type": "object",
            "properties": {
                "continuous_batching": {"enum": ["fast", "slow"]},
                "prefill": {"type": "integer", "maximum": 9},
            },
            "required": ["continuous_batching", "prefill"],
            "additionalProperties": False,
        }
    )
    for sampling in ({"temperature": 0}, {"temperature": 1.2, "seed": 5}):
        found, steps = {}, {}
        for speculation in MODES:
            made = engine(speculation)
            grammar = Grammar(GrammarKind.JSON_SCHEMA, schema, param="response_format")
            found[speculation] = run(made, request("r", CHAT, max_tokens=60, grammar=grammar, **sampling))["r"]
            steps[speculation] = made.stats().step_count
            made.close()
        assert found["ngram"] == found["draft"] == found["off"]
        assert set(json.loads(MODEL.decode(found["off"], True))) == {"continuous_batching", "prefill"}
        assert steps["ngram"] < 0.8 * steps["off"]
