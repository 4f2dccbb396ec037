"""Each grammar is compiled once as long as it is in use, and failures are remembered like successes."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace.demo_model
from headrace.engine.contract.grammar import Grammar, GrammarKind
from headrace.engine.engines.sim import SimConfig, SimEngine
from headrace.engine.grammar.grammar_compiler import GrammarCompiler
from headrace.errors.tree import InvalidRequest, Unsupported

TOKENIZER_FILE = Path(headrace.demo_model.__file__).parent / "checkpoint" / "tokenizer.json"
SPEC = dataclasses.replace(SimEngine(SimConfig(vocabulary_size=2048)).spec, eos_token_ids=frozenset({2, 4}))


@pytest.fixture
def compiler() -> Iterator[GrammarCompiler]:
    made = GrammarCompiler(TOKENIZER_FILE, SPEC, capacity=2)
    yield made
    made.close()


def regex(text: str) -> Grammar:
    return Grammar(GrammarKind.REGEX, text)


def test_the_least_recently_used_grammar_is_forgotten(compiler: GrammarCompiler) -> None:
    a, b = compiler.compile(regex("a")), compiler.compile(regex("b"))
    assert compiler.compile(regex("a")) is a
    compiler.compile(regex("c"))
    assert compiler.compile(regex("a")) is a
    assert compiler.compile(regex("b")) is not b


def test_a_failure_is_remembered_too(compiler: GrammarCompiler) -> None:
    future = compiler.compile(regex("("))
    assert isinstance(future.exception(timeout=10), InvalidRequest)
    assert compiler.compile(regex("(")) is future


def test_a_grammar_that_was_forgotten_while_it_waited_is_compiled_all_the_same(compiler: GrammarCompiler) -> None:
    futures = [compiler.compile(regex(f"a{{{count}}}")) for count in range(1, 20)]
    assert all(future.result(timeout=10).error is None for future in futures)


def test_models_without_a_vocabulary_or_an_end_are_refused(tmp_path: Path) -> None:
    endless = dataclasses.replace(SPEC, eos_token_ids=frozenset())
    small = dataclasses.replace(SPEC, vocabulary_size=100)
    for file, spec, text in (
        (tmp_path / "tokenizer.json", SPEC, "tokenizer.json"),
        (TOKENIZER_FILE, endless, "end-of-sequence"),
        (TOKENIZER_FILE, small, "tokenizer"),
    ):
        error = GrammarCompiler(file, spec).compile(regex("a")).exception(timeout=10)
        assert isinstance(error, Unsupported)
        assert text in error.message
