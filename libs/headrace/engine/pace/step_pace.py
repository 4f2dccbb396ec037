"""Measured pace of the engine, over the steps that it really ran."""

from dataclasses import dataclass, field

from headrace.domain.step_times import StepTimes
from headrace.engine.contract.request import EngineStats
from headrace.engine.pace.step_time_fit import StepTimeFit

MEMORY = 0.9
"""Weight of the past in a moving average; the newest step has the rest."""


@dataclass(slots=True)
class StepPace:
    """Moving averages over steps, and their sum. Zero: not known yet."""

    step_seconds: float = 0.0
    """Seconds of a step that reads no prompt."""
    busy_seconds: float = 0.0
    """Seconds of all steps so far."""
    _read_count: float = 0.0
    """Average prompt tokens per step, of steps that read some."""
    _weighted_rate: float = 0.0
    """Average of each step's prompt tokens per second, weighted by its prompt tokens."""
    _fit: StepTimeFit = field(default_factory=StepTimeFit)

    @property
    def times(self) -> StepTimes | None:
        """Times of steps by what they compute. None: too few were measured."""
        return self._fit.times

    @property
    def prefill_rate(self) -> float:
        """Prompt tokens per second. Steps weigh as much as they read: a short prompt, or the very first one, says
        little about the speed of a long one."""
        return self._weighted_rate / self._read_count if self._read_count > 0 else 0.0

    def predict(self, read_count: int) -> float | None:
        """Predicts the seconds of a step that reads so many prompt tokens. None: nothing like it was measured yet."""
        if read_count == 0:
            return self.step_seconds or None
        return self.step_seconds + read_count / self.prefill_rate if self.prefill_rate > 0 else None

    def measure_step(self, before: EngineStats, after: EngineStats, seconds: float) -> None:
        """Updates the averages by one step, from the engine's stats before and after it and the seconds that it
        took."""
        if after.step_count == before.step_count or seconds <= 0:
            return
        self.busy_seconds += seconds
        read_count = after.prompt_token_count - before.prompt_token_count
        self._fit.observe(
            read_count,
            max(0, after.work.token_count - before.work.token_count - read_count),
            after.work.read_token_count - before.work.read_token_count,
            seconds,
        )
        if read_count > 0:
            self._weighted_rate = _mixed(self._weighted_rate, read_count * read_count / seconds)
            self._read_count = _mixed(self._read_count, read_count)
        elif after.output_token_count > before.output_token_count:
            self.step_seconds = _mixed(self.step_seconds, seconds)


def _mixed(past: float, newest: float) -> float:
    return newest if past == 0 else MEMORY * past + (1 - MEMORY) * newest
