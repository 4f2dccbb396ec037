"""Sequences that wait for their grammar to be compiled."""

import logging
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass

from headrace.engine.batching.sequence import Sequence
from headrace.engine.contract.grammar import Grammar
from headrace.engine.grammar.grammar_compiler import GrammarCompiler
from headrace.engine.grammar.token_matcher import TokenMatcher
from headrace.errors.tree import HeadraceError, InternalError, InvalidRequest, Overloaded

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Readiness:
    """A sequence that waits no longer."""

    sequence: Sequence
    error: HeadraceError | None
    """Reason for which the sequence can never run, if there is one. Otherwise its matcher is set."""


@dataclass(frozen=True, slots=True)
class _Entry:
    sequence: Sequence
    grammar: Grammar
    future: Future[TokenMatcher]


class GrammarQueue:
    """Gives each sequence its own matcher when its grammar is ready. One thread owns it."""

    def __init__(self, compiler: GrammarCompiler) -> None:
        self._compiler = compiler
        self._entries: dict[str, _Entry] = {}

    def enqueue(self, sequence: Sequence, grammar: Grammar) -> None:
        self._entries[sequence.request_id] = _Entry(sequence, grammar, self._compiler.compile(grammar))

    def discard(self, request_id: str) -> None:
        """Forgets a sequence, if it waits here, and its grammar, if no other sequence waits for it and it has not
        begun."""
        entry = self._entries.pop(request_id, None)
        if entry is not None and all(other.future is not entry.future for other in self._entries.values()):
            entry.future.cancel()

    def take_ready(self, patience: float) -> list[Readiness]:
        """Removes and returns the ready sequences, in order of arrival. Waits at most `patience` seconds for the
        first."""
        if not self._entries:
            return []
        wait([entry.future for entry in self._entries.values()], patience, FIRST_COMPLETED)
        ready = [entry for entry in self._entries.values() if entry.future.done()]
        for entry in ready:
            self.discard(entry.sequence.request_id)
        return [_settle(entry) for entry in ready]

    def close(self) -> None:
        self._compiler.close()


def _settle(entry: _Entry) -> Readiness:
    error = entry.future.exception()
    if error is None:
        entry.sequence.matcher = entry.future.result().copy()
        return Readiness(entry.sequence, None)
    details = {"request_id": entry.sequence.request_id}
    if isinstance(error, InvalidRequest | Overloaded):
        told = type(error)(
            error.message, param=entry.grammar.param, retry_after=error.retry_after, details=error.details | details
        )
        return Readiness(entry.sequence, told)
    _log.error("a grammar could not be compiled", exc_info=error)
    return Readiness(entry.sequence, InternalError("the grammar could not be compiled", details=details))
