"""Growth of one call of a tool."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CallDelta:
    """New text of one call. The first of a call has its id and the name of the tool; others only add arguments."""

    index: int
    """Number of the call among those of its answer, from 0."""
    call_id: str = ""
    name: str = ""
    arguments: str = ""
    """Text that follows the arguments so far: together they are a JSON object."""
