"""Compiles grammars for one model's vocabulary, in its own threads, and remembers the results."""

import threading
from collections import OrderedDict
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.engine.contract.engine import EngineSpec
from headrace.engine.contract.grammar import Grammar, GrammarKind
from headrace.engine.grammar.compile_threads import CompileThreads
from headrace.engine.grammar.grammar_refusal import refusal
from headrace.engine.grammar.token_matcher import TokenMatcher
from headrace.errors.tree import Overloaded, Unsupported

if TYPE_CHECKING:
    from llguidance import LLTokenizer

    from headrace.engine.grammar.number_bound import NumberBound

THREAD_COUNT = 2
"""Number of threads: more than one, so that one slow grammar does not hold up the next."""
COMPILE_SECONDS = 5.0
"""Seconds that a grammar may take to compile, its first step included."""
CAPACITY = 64
_OF_JSON = frozenset({GrammarKind.JSON_SCHEMA, GrammarKind.JSON_OBJECT, GrammarKind.LARK_WITH_SCHEMAS})
STEP_FUEL = 50_000
"""Work of the lexer that one step may take, in llguidance's measure: a quarter of its own limit, some 0.1 s, because
all sequences wait for a step."""


class GrammarCompiler:
    """Remembers the most recently used grammars, also ones that cannot be compiled. One thread owns it."""

    def __init__(
        self, tokenizer_file: Path, spec: EngineSpec, capacity: int = CAPACITY, seconds: float = COMPILE_SECONDS
    ) -> None:
        """`tokenizer_file` is a tokenizer.json or a GGUF file, and is read with the first grammar. `seconds`: time for
        one compilation."""
        self._tokenizer_file = tokenizer_file
        self._spec = spec
        self._capacity = capacity
        self._threads = CompileThreads(self._compile, THREAD_COUNT, seconds)
        self._compiled: OrderedDict[Grammar, Future[TokenMatcher]] = OrderedDict()
        """Matchers by grammar, least recently used first."""
        self._tokenizer: LLTokenizer | None = None
        self._numbers: NumberBound | None = None
        self._tokenizer_lock = threading.Lock()

    def compile(self, grammar: Grammar) -> Future[TokenMatcher]:
        """Returns a matcher to copy, as soon as there is one. The future fails with InvalidRequest or Overloaded."""
        future = self._compiled.get(grammar)
        if future is None or _is_worth_another_try(future):
            future = self._compiled[grammar] = self._threads.submit(grammar)
        self._compiled.move_to_end(grammar)
        if len(self._compiled) > self._capacity:
            self._compiled.popitem(last=False)
        return future

    def close(self) -> None:
        """Lets go of the threads. They finish their current work, but its result is dropped."""
        self._threads.close()

    def _compile(self, grammar: Grammar) -> TokenMatcher:
        # Importing llguidance takes a tenth of the start of a worker, and many never see a grammar.
        from llguidance import LLMatcher, LLParserLimits

        from headrace.engine.grammar.grammar_source import write_source

        source = write_source(grammar)
        limits = LLParserLimits(step_lexer_fuel=STEP_FUEL, verbose_errors=False)
        matcher = LLMatcher(self._load_tokenizer(), source, log_level=0, limits=limits)
        if not matcher.is_error():
            # The first step is the costliest by far, and what it computes is kept for all copies.
            first = matcher.deep_copy()
            first.compute_bitmask()
            if not first.is_error():
                return TokenMatcher(matcher, self._bound_numbers() if grammar.kind in _OF_JSON else None)
            matcher = first
        raise refusal(grammar, matcher.get_error())

    def _bound_numbers(self) -> "NumberBound":
        """Reads the bytes of all tokens, once. Takes a tenth of a second for large vocabularies."""
        # As in `_compile`.
        from headrace.engine.grammar.number_bound import NumberBound

        tokenizer = self._load_tokenizer()
        with self._tokenizer_lock:
            if self._numbers is None:
                self._numbers = NumberBound([tokenizer.decode_bytes([id]) for id in range(self._spec.vocabulary_size)])
            return self._numbers

    def _load_tokenizer(self) -> "LLTokenizer":
        """Reads the vocabulary, once. Takes up to a second for large ones."""
        with self._tokenizer_lock:
            if self._tokenizer is None:
                self._tokenizer = self._read_tokenizer()
            return self._tokenizer

    def _read_tokenizer(self) -> "LLTokenizer":
        # As in `_compile`.
        from llguidance import LLTokenizer

        if not self._spec.eos_token_ids:
            raise Unsupported("structured output needs a model that names an end-of-sequence token")
        try:
            return LLTokenizer(
                _read_tokenizer_json(self._tokenizer_file),
                n_vocab=self._spec.vocabulary_size,
                eos_token=sorted(self._spec.eos_token_ids),
            )
        except ValueError as error:
            raise Unsupported(f"structured output cannot use the tokenizer of this model: {error}") from None


def _is_worth_another_try(future: Future[TokenMatcher]) -> bool:
    return future.cancelled() or (future.done() and isinstance(future.exception(), Overloaded))


def _read_tokenizer_json(path: Path) -> str:
    """Reads a tokenizer.json. Raises Unsupported or InvalidCheckpoint."""
    if path.suffix == ".gguf":
        # Few models need it, and importing it takes a tenth of the start of a worker.
        from headrace.gguf_text.gguf_tokenizer import GgufText

        return str(GgufText(path).tokenizer().to_str())
    if not path.is_file():
        raise Unsupported("structured output needs a tokenizer.json in the folder of the model")
    return path.read_text(encoding="utf-8")
