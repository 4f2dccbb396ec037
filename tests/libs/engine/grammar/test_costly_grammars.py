"""Grammars that would take minutes, or seconds of everybody's step, are refused, and say why."""

import dataclasses
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headrace.demo_model
from headrace.engine.batching.sequence import Sequence
from headrace.engine.contract.grammar import Grammar, GrammarKind
from headrace.engine.contract.request import EngineRequest, SamplingParams
from headrace.engine.engines.grammar_queue import GrammarQueue
from headrace.engine.engines.sim import SimConfig, SimEngine
from headrace.engine.grammar.grammar_compiler import COMPILE_SECONDS, GrammarCompiler
from headrace.engine.grammar.grammar_source import write_source
from headrace.engine.grammar.token_matcher import TokenMatcher
from headrace.engine.step.token_mask import fill_bitmask
from headrace.errors.tree import InvalidRequest

TOKENIZER_FILE = Path(headrace.demo_model.__file__).parent / "checkpoint" / "tokenizer.json"
SPEC = dataclasses.replace(SimEngine(SimConfig(vocabulary_size=2048)).spec, eos_token_ids=frozenset({2, 4}))
STEP_SECONDS = 1.0
"""Far more than a step takes that is within the limits, and far less than it would take without them."""


@pytest.fixture(scope="module")
def compiler() -> Iterator[GrammarCompiler]:
    made = GrammarCompiler(TOKENIZER_FILE, SPEC)
    yield made
    made.close()


def schema(content: Any) -> Grammar:
    return Grammar(GrammarKind.JSON_SCHEMA, json.dumps(content), "response_format")


def multiple(number: float) -> dict[str, Any]:
    return {"type": "number", "multipleOf": number}


@pytest.mark.parametrize(
    "content",
    [
        {"type": "integer", "multipleOf": 20_000_003},
        multiple(1e300),
        multiple(0.0000123456789),
        {"properties": {str(number): {"items": [multiple(number)]} for number in range(1000, 1150)}},
        {"allOf": [multiple(9973), multiple(9967)]},
        {"$ref": "#/$defs/a", "$defs": {"a": {"allOf": [multiple(9973), multiple(9967)]}}},
    ],
)
def test_remainders_without_measure_are_refused_at_once(content: Any) -> None:
    for grammar in (
        schema(content),
        Grammar(GrammarKind.LARK, f"start: %json {json.dumps(content)}", "response_format"),
    ):
        began = time.process_time()
        with pytest.raises(InvalidRequest, match="multipleOf") as refused:
            write_source(grammar)
        assert refused.value.param == "response_format"
        assert time.process_time() - began < 1


def test_an_escape_does_not_hide_them() -> None:
    hidden = r'start: %json {"type": "integer", "multiple\u004ff": 20000003}'
    with pytest.raises(InvalidRequest, match="multipleOf"):
        write_source(Grammar(GrammarKind.LARK, hidden))


@pytest.mark.parametrize(
    "content",
    [
        multiple(5),
        multiple(0.01),
        multiple(0.000001),
        multiple(3600),
        {"properties": {"a": multiple(1024), "b": multiple(3600), "c": multiple(0.25)}},
        {"allOf": [multiple(2), multiple(0.5)]},
        {"properties": {"multipleOf": {"type": "string"}}},
    ],
)
def test_usual_numbers_are_followed(compiler: GrammarCompiler, content: Any) -> None:
    assert compiler.compile(schema(content)).result(COMPILE_SECONDS * 4).error is None


@pytest.mark.slow
@pytest.mark.parametrize("pattern", ["((a{1000}){1000}){1000}", "(([a-z]{500}x){500}|y){500}"])
def test_no_step_of_a_grammar_takes_long_once_it_is_compiled(compiler: GrammarCompiler, pattern: str) -> None:
    """A grammar with a costly first step is refused; one that is taken does its steps quickly."""
    future = compiler.compile(Grammar(GrammarKind.REGEX, pattern, "guided_regex"))
    error = future.exception(COMPILE_SECONDS * 4)
    if error is not None:
        assert isinstance(error, InvalidRequest)
        assert error.param == "guided_regex"
        return
    began = time.thread_time()
    fill_bitmask([future.result().copy()], SPEC.vocabulary_size)
    assert time.thread_time() - began < STEP_SECONDS


def test_a_grammar_that_its_only_caller_leaves_is_not_compiled() -> None:
    may_go_on = threading.Event()
    begun: list[str] = []

    class Slow(GrammarCompiler):
        """Compiles nothing before it is told to."""

        def _compile(self, grammar: Grammar) -> TokenMatcher:
            begun.append(grammar.text)
            assert may_go_on.wait(30)
            return super()._compile(grammar)

    compiler = Slow(TOKENIZER_FILE, SPEC, seconds=60)
    queue = GrammarQueue(compiler)
    for number, text in enumerate(["a", "b", "left", "shared", "shared"]):
        queue.enqueue(sequence(str(number)), Grammar(GrammarKind.REGEX, text))
    queue.discard("2")
    queue.discard("3")
    may_go_on.set()
    ready: list[Any] = []
    while len(ready) < 3:
        ready += queue.take_ready(1.0)
    assert [readiness.error for readiness in ready] == [None] * 3
    # Several threads begin at the same time, in any order.
    assert sorted(begun) == ["a", "b", "shared"]
    queue.enqueue(sequence("5"), Grammar(GrammarKind.REGEX, "left"))
    (again,) = queue.take_ready(30.0)
    assert again.error is None
    queue.close()


def sequence(request_id: str) -> Sequence:
    request = EngineRequest(request_id, (1,), SamplingParams(max_tokens=1))
    return Sequence(request, 0, 0, frozenset(), 64)
