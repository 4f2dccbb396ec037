"""A request to a fork server, as it is sent."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

MAX_BYTES = 1 << 17
"""Size of a request, at most: Linux gives a message between two sockets some 200 KiB."""


@dataclass(frozen=True, slots=True)
class ForkRequest:
    """A module to run in a fork. Beside it travel the descriptors of the log and of what the process inherits."""

    parent: int
    """Process id of the supervisor."""
    module: str
    arguments: Sequence[str]
    environment: Mapping[str, str]
    """Variables beyond those of the fork server."""
    numbers: Sequence[int]
    """Number that each inherited descriptor gets."""

    def encoded(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decoded(cls, content: bytes) -> "ForkRequest":
        return cls(**json.loads(content))
