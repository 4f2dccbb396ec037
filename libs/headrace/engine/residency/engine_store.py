"""Engines of all models of a process, wherever they are, and the ways from one residence to another."""

import gc
import logging
from collections.abc import Callable, Mapping

from headrace import failpoints
from headrace.engine.contract.engine import Engine
from headrace.engine.memory.aligned import give_back_freed
from headrace.engine.residency.managed_engine import ManagedEngine
from headrace.engine.residency.out_of_memory import is_out_of_memory
from headrace.engine.residency.policy.move import Move, MoveKind
from headrace.engine.residency.sleeper import can_sleep

HALF = 0.5

_log = logging.getLogger(__name__)

Load = Callable[[str, float], Engine]
"""Loads a model by its name, with a share of the KV blocks that it usually has. Raises HeadraceError or MemoryError."""


class EngineStore:
    """Carries out moves, one at a time. An engine is lent to its ManagedEngine while it is awake, and kept here while
    it sleeps in host memory."""

    def __init__(self, load: Load, lenders: Mapping[str, ManagedEngine]) -> None:
        """`lenders`: the ManagedEngine of each model by name, which may be added later."""
        self._load = load
        self._lenders = lenders
        self._resting: dict[str, Engine] = {}
        self.failure_counts: dict[str, int] = {}
        """Times that memory ran out while a model was brought in, by its name."""

    def keep(self, name: str, engine: Engine) -> bool:
        """Puts a model to sleep that was never lent. Returns whether it can; otherwise it is closed."""
        if not can_sleep(engine):
            engine.close()
            return False
        engine.sleep()
        self._resting[name] = engine
        return True

    def perform(self, move: Move, free: Callable[[], bool]) -> bool:
        """Carries out a move. Returns False if it cannot be done now, and nothing has changed.

        `free` makes another model give its memory up; it returns False if there is none left. Where memory runs out, it
        is asked first, and then there are half as many KV blocks. Raises MemoryError, or HeadraceError for a checkpoint
        that cannot be loaded; then the engine is gone."""
        match move.kind:
            case MoveKind.LOAD | MoveKind.WAKE:
                self._lenders[move.name].attach(self._bring(move, free))
                return True
            case MoveKind.SLEEP:
                return self._put_to_sleep(move.name)
            case MoveKind.DROP:
                return self._drop(move.name)

    def lose(self, name: str) -> None:
        """Drops an engine, whatever it holds: its requests are to be refused."""
        lender = self._lenders[name]
        engine = self._resting.pop(name, None) or lender.detach()
        lender.forget()
        if engine is not None:
            engine.close()
        del engine
        collect_garbage()

    def close(self) -> None:
        """Closes the engines that sleep."""
        for engine in self._resting.values():
            engine.close()
        self._resting.clear()

    def _bring(self, move: Move, free: Callable[[], bool]) -> Engine:
        """Loads or wakes a model, with whatever it takes."""
        while True:
            try:
                return self._wake(move.name) if move.name in self._resting else self._loaded(move.name, 1.0)
            except Exception as error:
                if not is_out_of_memory(error):
                    raise
                self._note_failure(move.name, error)
            if not free():
                break
            collect_garbage()
        self._close_resting(move.name)
        try:
            return self._loaded(move.name, HALF)
        except Exception as error:
            if is_out_of_memory(error):
                self._note_failure(move.name, error)
            raise

    def _wake(self, name: str) -> Engine:
        engine = self._resting[name]
        failpoints.hit("residency.wake")
        if can_sleep(engine):
            engine.wake()
        return self._resting.pop(name)

    def _loaded(self, name: str, share: float) -> Engine:
        failpoints.hit("residency.load")
        return self._load(name, share)

    def _put_to_sleep(self, name: str) -> bool:
        lender = self._lenders[name]
        engine = lender.detach()
        if engine is None or not can_sleep(engine):
            return False
        engine.sleep()
        lender.collect(engine)
        self._resting[name] = engine
        return True

    def _drop(self, name: str) -> bool:
        """Drops an engine without requests."""
        lender = self._lenders[name]
        if lender.is_busy:
            return False
        engine = self._resting.pop(name, None) or lender.detach(if_idle=True)
        if engine is None:
            return False
        lender.forget()
        engine.close()
        del engine
        give_back_freed()
        return True

    def _close_resting(self, name: str) -> None:
        """Closes an engine that could not wake, and with it the requests that it had begun."""
        if (engine := self._resting.pop(name, None)) is not None:
            engine.close()
            self._lenders[name].lose_begun()
        del engine
        collect_garbage()

    def _note_failure(self, name: str, error: Exception) -> None:
        self.failure_counts[name] = self.failure_counts.get(name, 0) + 1
        _log.warning("memory ran out while a model was brought in", extra={"model": name, "error": repr(error)})


def collect_garbage() -> None:
    """Gives back to the system what nothing refers to any more."""
    gc.collect()
    give_back_freed()
