"""One claim, and its finding here."""

from dataclasses import dataclass
from typing import Literal

Basis = Literal["measured here", "predicted", "not measured"]


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim, with what was found and under which condition."""

    subject: str
    promised: str
    found: str
    """Finding, in the units of `promised`."""
    holds: bool | None
    """Whether it was reached. None: not measured."""
    basis: Basis
    condition: str
    """Condition under which the finding holds, or the reason why there is none."""
