"""Number of prefill workers that goes with a number of decode workers."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Self

from headrace.planning.deployment import Deployment

MAX_WORKERS = 8
"""Maximum number of workers of one kind in a reported ratio."""


@dataclass(frozen=True, slots=True)
class PrefillRatio:
    """Numbers of workers that are busy alike, for requests of one size."""

    prefill_seconds: float
    """Predicted time of a prefill worker for each request."""
    decode_seconds: float
    """Predicted time of a decode worker for each request: its share of the steps that it takes part in."""

    @classmethod
    def of(cls, deployment: Deployment, prompt_count: int, output_count: int, batch: int) -> Self | None:
        """Predicts it for a mean prompt and a mean output, in tokens, with `batch` sequences per decode worker. None:
        they do not fit, or the device's rates are not known."""
        context = prompt_count + output_count // 2
        prefill_seconds = deployment.prefill_seconds(prompt_count)
        if prefill_seconds is None or deployment.request_count(prompt_count + output_count) < batch:
            return None
        return cls(prefill_seconds, output_count * deployment.step_seconds(batch, context) / batch)

    @property
    def workers(self) -> tuple[int, int]:
        """Numbers of prefill and decode workers, each from 1 to MAX_WORKERS, closest to the ratio of their times."""
        wanted = self.prefill_seconds / self.decode_seconds
        if wanted <= 1:
            found = Fraction(wanted).limit_denominator(MAX_WORKERS)
            return (found.numerator, found.denominator) if found else (1, MAX_WORKERS)
        found = Fraction(1 / wanted).limit_denominator(MAX_WORKERS)
        return (found.denominator, found.numerator) if found else (MAX_WORKERS, 1)
