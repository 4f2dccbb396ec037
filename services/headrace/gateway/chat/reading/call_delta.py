"""Growth of one call of a tool."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

ID_BYTES = 12


@dataclass(frozen=True, slots=True)
class CallDelta:
    """New text of one call. The first of a call has its id and the name of the tool; others only add arguments."""

    index: int
    """Number of the call among those of its answer, from 0."""
    call_id: str = ""
    name: str = ""
    arguments: str = ""
    """Text that follows the arguments so far: together they are a JSON object."""


def call_id_of(answer_id: str, index: int) -> str:
    """Returns the id of a call, which follows from that of its answer."""
    name = f"{answer_id}/{index}".encode()
    return f"call_{hashlib.blake2b(name, digest_size=ID_BYTES).hexdigest()}"


def joined_calls(deltas: Sequence[CallDelta]) -> list[CallDelta]:
    """Returns deltas in which consecutive growth of one call is one."""
    joined: list[CallDelta] = []
    for delta in deltas:
        if joined and joined[-1].index == delta.index and not delta.call_id:
            joined[-1] = replace(joined[-1], arguments=joined[-1].arguments + delta.arguments)
        else:
            joined.append(delta)
    return joined
