"""Compiles grammars in threads, a few at a time, and waits for none of them longer than it may take."""

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

from headrace.engine.contract.grammar import Grammar
from headrace.engine.grammar.token_matcher import TokenMatcher
from headrace.errors.tree import InvalidRequest, Overloaded

MAX_LATE = 4
"""Maximum number of overdue compilations that have not ended yet. Beyond it new ones are refused: each takes a core."""
RETRY_SECONDS = 5.0


@dataclass(eq=False, slots=True)
class _Compilation:
    grammar: Grammar
    future: Future[TokenMatcher] = field(default_factory=Future)
    is_late: bool = False
    has_ended: bool = False


class CompileThreads:
    """Gives the turn of a compilation that is late to the next. Safe to use from any thread.

    A thread cannot be ended from outside: one that is late runs on until its compilation ends, and the result is
    dropped.
    """

    def __init__(self, compile_grammar: Callable[[Grammar], TokenMatcher], count: int, seconds: float) -> None:
        self._compile = compile_grammar
        self._count = count
        self._seconds = seconds
        self._lock = threading.RLock()
        self._waiting: deque[_Compilation] = deque()
        self._running_count = 0
        self._late_count = 0

    def submit(self, grammar: Grammar) -> Future[TokenMatcher]:
        """Submits a grammar. The future fails with what `compile_grammar` raises, with InvalidRequest when it takes too
        long, or with Overloaded. Cancelling it works until it begins."""
        compilation = _Compilation(grammar)
        with self._lock:
            if self._late_count >= MAX_LATE:
                compilation.future.set_exception(
                    Overloaded(
                        f"{self._late_count} grammars that take too long are still being compiled: try again later",
                        param=grammar.param,
                        retry_after=RETRY_SECONDS,
                    )
                )
                return compilation.future
            self._waiting.append(compilation)
            self._start_waiting()
        return compilation.future

    def close(self) -> None:
        """Starts nothing more. A running compilation ends when it is done, or with the process."""
        with self._lock:
            for compilation in self._waiting:
                compilation.future.cancel()
            self._waiting.clear()

    def _start_waiting(self) -> None:
        while self._waiting and self._running_count < self._count:
            compilation = self._waiting.popleft()
            if compilation.future.set_running_or_notify_cancel():
                self._running_count += 1
                threading.Thread(target=self._run, args=(compilation,), name="grammar", daemon=True).start()

    def _run(self, compilation: _Compilation) -> None:
        timer = threading.Timer(self._seconds, self._write_off, (compilation,))
        timer.daemon = True
        timer.start()
        matcher, error = None, None
        try:
            matcher = self._compile(compilation.grammar)
        except BaseException as raised:  # noqa: BLE001 - it is the future's
            error = raised
        timer.cancel()
        with self._lock:
            compilation.has_ended = True
            if compilation.is_late:
                self._late_count -= 1
                return
            self._running_count -= 1
            self._start_waiting()
        if matcher is not None:
            compilation.future.set_result(matcher)
        else:
            compilation.future.set_exception(error)

    def _write_off(self, compilation: _Compilation) -> None:
        grammar = compilation.grammar
        with self._lock:
            if compilation.has_ended:
                return
            compilation.is_late = True
            self._running_count -= 1
            self._late_count += 1
            self._start_waiting()
        message = f"the {grammar.kind.value} took more than {self._seconds:g} s to compile: ask for something simpler"
        compilation.future.set_exception(InvalidRequest(message, param=grammar.param))
