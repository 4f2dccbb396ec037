"""A grammar that takes too long ends in time and holds up no other."""

import threading
from concurrent.futures import Future

import pytest

from headrace.engine.contract.grammar import Grammar, GrammarKind
from headrace.engine.grammar.compile_threads import MAX_LATE, CompileThreads
from headrace.engine.grammar.token_matcher import TokenMatcher
from headrace.errors.tree import InvalidRequest, Overloaded

PATIENCE = 30.0


class Bench:
    """Compiles what does not begin with `slow` at once, and that when it is told to."""

    def __init__(self, count: int = 2, seconds: float = 0.1) -> None:
        self.may_go_on = threading.Event()
        self.begun: list[str] = []
        self.threads = CompileThreads(self._compile, count, seconds)

    def _compile(self, grammar: Grammar) -> TokenMatcher:
        self.begun.append(grammar.text)
        if grammar.text.startswith("slow"):
            assert self.may_go_on.wait(PATIENCE)
        return TokenMatcher(None)  # type: ignore[arg-type]

    def submit(self, text: str) -> Future[TokenMatcher]:
        return self.threads.submit(Grammar(GrammarKind.REGEX, text, "guided_regex"))


def test_slow_ones_end_in_time_and_the_next_have_their_turn() -> None:
    bench = Bench()
    slow, quick = [bench.submit(f"slow{number}") for number in range(3)], bench.submit("quick")
    assert isinstance(quick.result(PATIENCE), TokenMatcher)
    for future in slow:
        error = future.exception(PATIENCE)
        assert isinstance(error, InvalidRequest)
        assert error.param == "guided_regex"
        assert "more than 0.1 s" in error.message
    bench.may_go_on.set()


def test_many_that_never_end_leave_a_bound_of_threads() -> None:
    bench = Bench(seconds=0.02)
    late = [bench.submit(f"slow{number}") for number in range(MAX_LATE)]
    assert all(isinstance(future.exception(PATIENCE), InvalidRequest) for future in late)
    assert isinstance(bench.submit("quick").exception(PATIENCE), Overloaded)
    bench.may_go_on.set()
    while bench.threads._late_count:
        threading.Event().wait(0.001)
    assert isinstance(bench.submit("quick").result(PATIENCE), TokenMatcher)


def test_what_was_cancelled_before_its_turn_never_begins() -> None:
    bench = Bench(count=1, seconds=PATIENCE)
    slow, cancelled, quick = bench.submit("slow"), bench.submit("cancelled"), bench.submit("quick")
    assert not slow.cancel()
    assert cancelled.cancel()
    bench.may_go_on.set()
    assert isinstance(quick.result(PATIENCE), TokenMatcher)
    assert isinstance(slow.result(PATIENCE), TokenMatcher)
    assert bench.begun == ["slow", "quick"]


def test_an_error_is_the_futures() -> None:
    def fail(_: Grammar) -> TokenMatcher:
        raise ValueError("words")

    future = CompileThreads(fail, 1, PATIENCE).submit(Grammar(GrammarKind.REGEX, "a"))
    with pytest.raises(ValueError, match="words"):
        future.result(PATIENCE)


def test_what_waits_at_the_end_is_cancelled() -> None:
    bench = Bench(count=1, seconds=PATIENCE)
    bench.submit("slow")
    waiting = bench.submit("quick")
    bench.threads.close()
    assert waiting.cancelled()
    bench.may_go_on.set()
