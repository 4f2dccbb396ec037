"""Query of a request that shows a stored response."""

from dataclasses import dataclass
from urllib.parse import parse_qs

from headrace.errors import InvalidRequest

_FLAGS = {"true": True, "1": True, "false": False, "0": False, "": False}
MAX_DIGITS = 9


@dataclass(frozen=True, slots=True)
class StreamQuery:
    """Wish for the events of a response: all after the one of a number."""

    is_stream: bool = False
    starting_after: int = -1


def read_stream_query(query: bytes) -> StreamQuery:
    """Reads `stream` and `starting_after`. Raises InvalidRequest, naming the parameter."""
    given = {name: values[-1] for name, values in parse_qs(query.decode("latin-1"), keep_blank_values=True).items()}
    stream = given.get("stream", "false").lower()
    if stream not in _FLAGS:
        raise InvalidRequest("stream must be true or false", param="stream")
    after = given.get("starting_after")
    if after is None:
        return StreamQuery(_FLAGS[stream])
    if not _FLAGS[stream]:
        raise InvalidRequest("starting_after needs stream=true", param="starting_after")
    if not (after.isascii() and after.isdigit() and len(after) <= MAX_DIGITS):
        raise InvalidRequest("starting_after must be the number of an event", param="starting_after")
    return StreamQuery(is_stream=True, starting_after=int(after))
