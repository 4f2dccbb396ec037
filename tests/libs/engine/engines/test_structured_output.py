"""Structured output of the engine with the bundled model: always valid, and the same in any batch."""

import json
import random
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import torch
from tests.libs.engine.engine_running import engine_config, finish, request, run, tokens
from tests.libs.engine.grammar.random_schema import random_schema
from tokenizers import Tokenizer

import headrace.demo_model
from headrace.engine.contract.grammar import Grammar, GrammarKind
from headrace.engine.contract.reasoning_limit import ReasoningLimit
from headrace.engine.contract.request import Delta, EngineRequest, FinishReason
from headrace.engine.engines.sim import SimConfig, SimEngine
from headrace.engine.engines.text_engine import TextEngine
from headrace.engine.grammar.grammar_compiler import GrammarCompiler
from headrace.engine.grammar.token_matcher import TokenMatcher
from headrace.engine.loading.load_text_engine import load_text_engine
from headrace.errors.tree import HeadraceError, InvalidRequest, Unsupported

FOLDER = Path(headrace.demo_model.__file__).parent / "checkpoint"
TOKENIZER = Tokenizer.from_file(str(FOLDER / "tokenizer.json"))
PROMPT = tuple(TOKENIZER.encode("Describe a KV cache as JSON: ").ids)
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 24},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}


def load(**settings: Any) -> TextEngine:
    defaults = {"max_step_token_count": 256, "block_count": 512, "thread_count": 1}
    return load_text_engine(FOLDER, engine_config(**(defaults | settings)))


@pytest.fixture(scope="module")
def engine() -> Iterator[TextEngine]:
    made = load()
    yield made
    made.close()


def schema(content: dict[str, Any]) -> Grammar:
    return Grammar(GrammarKind.JSON_SCHEMA, json.dumps(content))


def ask(request_id: str, grammar: Grammar | None, output: tuple[int, ...] = (), **sampling: Any) -> EngineRequest:
    return request(request_id, PROMPT, output, **({"max_tokens": 600, "grammar": grammar} | sampling))


def text(token_ids: list[int]) -> str:
    return str(TOKENIZER.decode(token_ids))


def ends(streams: dict[str, list[Delta]]) -> set[FinishReason | None]:
    return {stream[-1].finish_reason for stream in streams.values()}


def errors_and_streams(engine: TextEngine) -> tuple[list[HeadraceError], dict[str, list[Delta]]]:
    """Steps until there is no work, as the worker does: an error ends the request that it names."""
    errors: list[HeadraceError] = []
    streams: dict[str, list[Delta]] = {}
    while engine.has_work():
        try:
            deltas = engine.step()
        except HeadraceError as error:
            errors.append(error)
            continue
        for delta in deltas:
            streams.setdefault(delta.request_id, []).append(delta)
        engine.check_invariants()
    return errors, streams


@pytest.mark.slow
@pytest.mark.parametrize("temperature", [0.0, 0.8, 1.5])
def test_every_output_follows_its_random_schema(engine: TextEngine, temperature: float) -> None:
    source = random.Random(int(temperature * 10))
    schemas = [random_schema(source) for _ in range(30)]
    for index, content in enumerate(schemas):
        engine.add(ask(str(index), schema(content), temperature=temperature, seed=index))
    streams = finish(engine)
    assert ends(streams) == {FinishReason.STOP}
    for index, content in enumerate(schemas):
        value = json.loads(text(tokens(streams[str(index)])))
        jsonschema.validate(value, content, jsonschema.Draft202012Validator)


@pytest.mark.parametrize("sampling", [{"temperature": 0.0}, {"temperature": 1.5}])
def test_every_json_object_is_one(engine: TextEngine, sampling: dict[str, Any]) -> None:
    """An output that ends by itself is an object; one whose free string is never closed is ended by the limit."""
    requests = [
        ask(str(i), Grammar(GrammarKind.JSON_OBJECT), **({"seed": i, "max_tokens": 200} | sampling)) for i in range(4)
    ]
    for each in requests:
        engine.add(each)
    for stream in finish(engine).values():
        if stream[-1].finish_reason is FinishReason.STOP:
            assert isinstance(json.loads(text(tokens(stream))), dict)


@pytest.mark.parametrize("temperature", [0.0, 1.5])
def test_regex_and_choice_match_in_full(engine: TextEngine, temperature: float) -> None:
    patterns = [r"\d{3}-[a-f]{2,5}", r"(yes|no|maybe)!", r"[A-Z][a-z]{1,8}( [A-Z][a-z]{1,8})?", "é{2}ß?"]
    choices = ["gateway", "worker", "work", "a cache\nof two lines", 'with "quotes"', "日本語"]
    for seed, pattern in enumerate(patterns):
        engine.add(ask(pattern, Grammar(GrammarKind.REGEX, pattern), temperature=temperature, seed=seed))
    for seed in range(8):
        grammar = Grammar(GrammarKind.CHOICE, json.dumps(choices))
        engine.add(ask(f"choice {seed}", grammar, temperature=temperature, seed=seed))
    streams = finish(engine)
    assert ends(streams) == {FinishReason.STOP}
    for pattern in patterns:
        assert re.fullmatch(pattern, text(tokens(streams.pop(pattern))))
    assert {text(tokens(stream)) for stream in streams.values()} <= set(choices)


def test_a_lark_grammar_decides(engine: TextEngine) -> None:
    grammar = Grammar(GrammarKind.LARK, 'start: sum "=" /[0-9]{1,3}/\nsum: /[0-9]{1,2}/ ("+" /[0-9]{1,2}/)~1..3')
    found = text(run(engine, ask("r", grammar, temperature=1.2, seed=5))["r"])
    assert re.fullmatch(r"\d{1,2}(\+\d{1,2}){1,3}=\d{1,3}", found)


def mixed_requests() -> list[EngineRequest]:
    shared: dict[str, Any] = {"max_tokens": 100, "logprob_count": 2}
    sampled = shared | {"temperature": 1.2, "seed": 11, "top_p": 0.95}
    greedy = shared | {"temperature": 0.0}
    free = {"max_tokens": 40, "ignore_eos": True}
    return [
        ask("free", None, **(sampled | free)),
        ask("person", schema(PERSON), **sampled),
        ask("greedy", schema(PERSON), **greedy),
        ask("penalised", schema(PERSON), **(sampled | {"repetition_penalty": 1.3, "frequency_penalty": 0.5})),
        ask("free too", None, **(greedy | free)),
        ask("regex", Grammar(GrammarKind.REGEX, "[a-z ]{40,60}"), **sampled),
    ]


@pytest.mark.slow
def test_batch_chunks_and_preemption_change_nothing() -> None:
    """Log-probabilities, not only tokens, are equal to the last bit."""
    expected: dict[str, Any] = {}
    for each in mixed_requests():
        engine = load(prefix_cache=False)
        engine.add(each)
        expected |= finish(engine)
    reference = {name: _content(stream) for name, stream in expected.items()}
    for settings in ({}, {"max_step_token_count": 16}, {"block_count": 8}):
        engine = load(**settings)
        for each in mixed_requests():
            engine.add(each)
        assert {name: _content(stream) for name, stream in finish(engine).items()} == reference, settings
        assert "block_count" not in settings or engine.stats().preemption_count > 0


def _content(stream: list[Delta]) -> tuple[list[int], list[Any], FinishReason | None]:
    return tokens(stream), [logprob for delta in stream for logprob in delta.logprobs], stream[-1].finish_reason


@pytest.mark.parametrize("sampling", [{"temperature": 0.0}, {"temperature": 1.3, "seed": 5}])
def test_another_engine_goes_on_wherever_the_first_stopped(engine: TextEngine, sampling: dict[str, Any]) -> None:
    whole = run(engine, ask("whole", schema(PERSON), **sampling))["whole"]
    for cut in range(len(whole)):
        rest = run(engine, ask(f"cut {cut}", schema(PERSON), tuple(whole[:cut]), **sampling))
        assert whole[:cut] + rest[f"cut {cut}"] == whole


def test_log_probabilities_are_those_of_the_raw_logits(engine: TextEngine) -> None:
    (delta, *_), *_ = _streams(
        engine, ask("r", Grammar(GrammarKind.CHOICE, '["zzz"]'), temperature=0.0, logprob_count=1)
    )
    (free, *_), *_ = _streams(engine, ask("r", None, temperature=0.0, logprob_count=1, max_tokens=1))
    assert delta.logprobs[0].top == free.logprobs[0].top
    assert delta.logprobs[0].logprob < free.logprobs[0].logprob


def _streams(engine: TextEngine, *requests: EngineRequest) -> list[list[Delta]]:
    for each in requests:
        engine.add(each)
    return list(finish(engine).values())


@pytest.mark.parametrize("sampling", [{"min_tokens": 50}, {"ignore_eos": True}, {"logit_bias": {4: -100.0, 2: -100.0}}])
def test_a_complete_grammar_ends_the_request_whatever_else_was_asked(
    engine: TextEngine, sampling: dict[str, Any]
) -> None:
    for temperature in (0.0, 1.0):
        ((*_, last),) = _streams(
            engine, ask("r", Grammar(GrammarKind.CHOICE, '["yes", "no"]'), temperature=temperature, **sampling)
        )
        assert last.finish_reason is FinishReason.STOP


def test_the_end_comes_no_sooner_than_min_tokens_where_the_grammar_goes_on(engine: TextEngine) -> None:
    output = run(engine, ask("r", Grammar(GrammarKind.REGEX, "[a-z ]*"), temperature=1.0, seed=1, min_tokens=30))["r"]
    assert len(output) >= 30


def test_a_bias_does_not_bring_back_what_the_grammar_forbids(engine: TextEngine) -> None:
    forbidden = TOKENIZER.encode("the").ids[-1]
    grammar = Grammar(GrammarKind.REGEX, r"\d{20}")
    output = run(engine, ask("r", grammar, temperature=0.0, logit_bias={forbidden: 100.0}))["r"]
    assert re.fullmatch(r"\d{20}", text(output))


def test_a_grammar_that_cannot_be_compiled_ends_its_request_alone(engine: TextEngine) -> None:
    engine.add(ask("bad", Grammar(GrammarKind.JSON_SCHEMA, '{"not": {}}', "response_format")))
    engine.add(ask("good", Grammar(GrammarKind.CHOICE, '["yes"]')))
    engine.add(ask("free", None, max_tokens=5, ignore_eos=True))
    errors, streams = errors_and_streams(engine)
    (error,) = errors
    assert isinstance(error, InvalidRequest)
    assert error.details["request_id"] == "bad"
    assert error.param == "response_format"
    assert '"not"' in error.message
    assert text(tokens(streams["good"])) == "yes"
    assert len(tokens(streams["free"])) == 5


def test_tokens_off_the_grammar_end_a_resumed_request_with_an_error(engine: TextEngine) -> None:
    engine.add(ask("off", Grammar(GrammarKind.REGEX, r"\d+"), tuple(TOKENIZER.encode("abc").ids)))
    (error,), streams = errors_and_streams(engine)
    assert isinstance(error, InvalidRequest)
    assert error.details["request_id"] == "off"
    assert streams == {}


class SlowCompiler(GrammarCompiler):
    """Compiles nothing before it is told to."""

    def __init__(self, spec: Any) -> None:
        super().__init__(FOLDER / "tokenizer.json", spec)
        self.may_go_on = threading.Event()

    def _compile(self, grammar: Grammar) -> TokenMatcher:
        assert self.may_go_on.wait(30)
        return super()._compile(grammar)


def test_a_slow_grammar_holds_up_nobody_else() -> None:
    engine = load()
    compiler = SlowCompiler(engine.spec)
    engine._grammars._compiler = compiler
    engine.add(ask("slow", Grammar(GrammarKind.CHOICE, '["yes"]')))
    engine.add(ask("cancelled", Grammar(GrammarKind.CHOICE, '["no"]')))
    engine.add(ask("free", None, max_tokens=5, ignore_eos=True))
    done = [delta for _ in range(6) for delta in engine.step()]
    assert done[-1].request_id == "free"
    assert done[-1].finish_reason is FinishReason.LENGTH
    assert engine.stats().waiting_count == 0
    assert engine.has_work()
    started = time.monotonic()
    assert engine.step() == []
    assert 0.005 < time.monotonic() - started < 1, "a step without work waits a little, not long"
    engine.cancel("cancelled")
    compiler.may_go_on.set()
    streams = finish(engine)
    assert set(streams) == {"slow"}
    assert text(tokens(streams["slow"])) == "yes"
    assert engine.stats().used_block_count == 0


def test_the_prompt_can_be_scored_with_a_grammar_that_nobody_needs(engine: TextEngine) -> None:
    ((delta,),) = _streams(engine, ask("r", Grammar(GrammarKind.REGEX, "("), max_tokens=0, prompt_logprob_count=0))
    assert delta.finish_reason is FinishReason.LENGTH


def test_the_sim_engine_refuses() -> None:
    with pytest.raises(Unsupported, match="structured output"):
        SimEngine(SimConfig()).add(request("r", (1, 2), grammar=Grammar(GrammarKind.JSON_OBJECT)))


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.mark.parametrize("speculation", ["off", "on"])
def test_reasoning_ends_at_its_bound_whatever_is_drafted(speculation: str) -> None:
    end = tuple(TOKENIZER.encode("</think>", add_special_tokens=False).ids)
    limit = ReasoningLimit(12, (), end)
    engine = load(speculation=speculation)
    try:
        asked = [ask(str(seed), None, seed=seed, max_tokens=40, reasoning_limit=limit) for seed in range(4)]
        asked.append(ask("json", schema(PERSON), seed=9))
        streams = run(engine, *asked)
    finally:
        engine.close()
    for seed in range(4):
        assert tuple(streams[str(seed)])[12 : 12 + len(end)] == end
    jsonschema.validate(json.loads(text(streams["json"])), PERSON)
