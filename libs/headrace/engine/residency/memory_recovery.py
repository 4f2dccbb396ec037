"""Recovery of an engine in whose step memory ran out."""

import enum
import logging

from headrace import failpoints
from headrace.engine.contract.engine import Engine, EngineSpec
from headrace.engine.residency.out_of_memory import is_out_of_memory
from headrace.engine.residency.sleeper import can_rest
from headrace.engine.residency.step_limit import StepLimit
from headrace.errors.tree import Overloaded

RETRY_SECONDS = 2.0
"""Seconds after which a refused request may find memory again."""

_log = logging.getLogger(__name__)


class Recovered(enum.Enum):
    """State of an engine after memory ran out."""

    GOES_ON = enum.auto()
    """It computes its requests again, in smaller steps."""
    REFUSES = enum.auto()
    """It works, and its requests have to be refused: smaller steps did not help, or it has none."""
    LOST = enum.auto()
    """It has no memory for its KV cache, and has to be dropped."""


class MemoryRecovery:
    """Gives the KV cache's memory back and halves the steps of one engine, until all has gone well for a while. For one
    thread."""

    def __init__(self, spec: EngineSpec) -> None:
        self._limit = StepLimit(spec.max_step_token_count, max(1, spec.block_size))
        self.failure_count = 0
        """Times that memory ran out in a step."""

    def note_success(self, engine: Engine) -> None:
        """Notes a step that went well."""
        if self._limit.note_success() and can_rest(engine):
            engine.limit_step(self._limit.token_count)

    def recover(self, engine: Engine, error: Exception) -> Recovered:
        """Makes the engine continue after `error`. Raises it again unless it is an out-of-memory error."""
        if not is_out_of_memory(error):
            raise error
        self.failure_count += 1
        self._limit.note_failure()
        facts = {"error": repr(error), "step_tokens": self._limit.token_count, "count": self.failure_count}
        _log.warning("memory ran out in a step", extra=facts)
        try:
            if can_rest(engine):
                engine.sleep(in_place=True)
                engine.limit_step(self._limit.token_count)
                failpoints.hit("residency.recover")
                engine.wake()
                if not self._limit.is_hopeless:
                    return Recovered.GOES_ON
        except Exception as further:
            if not is_out_of_memory(further):
                raise
            self._limit.forgive()
            return Recovered.LOST
        self._limit.forgive()
        return Recovered.REFUSES


def no_memory(request_id: str) -> Overloaded:
    """Makes the error of a request for whose model there is no memory now."""
    return Overloaded(
        "there is not enough memory for the model at the moment; try again soon",
        stage="decode",
        retry_after=RETRY_SECONDS,
        details={"request_id": request_id},
    )
