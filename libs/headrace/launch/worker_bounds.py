"""Bounds of the number of workers of each model, where it follows the demand."""

from dataclasses import dataclass

from headrace.errors import ConfigError

MAX_DIGITS = 6


@dataclass(frozen=True, slots=True)
class WorkerBounds:
    """Fewest and most workers."""

    least: int
    most: int

    @classmethod
    def parse(cls, text: str) -> "WorkerBounds":
        """Reads MIN:MAX. Raises ConfigError for anything else."""
        parts = text.split(":")
        is_known = len(parts) == 2 and all(part.isdecimal() and len(part) < MAX_DIGITS for part in parts)
        least, most = map(int, parts) if is_known else (1, 0)
        if least > most or most < 1:
            raise ConfigError(
                f"--autoscale is {text[:40]!r}; it must be MIN:MAX, such as 1:4: numbers of workers", param="autoscale"
            )
        return cls(least, most)

    @property
    def allows_none(self) -> bool:
        """Whether a model may have no worker."""
        return self.least == 0

    def clamp(self, count: int) -> int:
        """Returns the nearest number within the bounds."""
        return min(max(count, self.least), self.most)
