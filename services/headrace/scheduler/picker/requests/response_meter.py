"""Counts the tokens of a response that passes by."""

import re

TAIL_BYTES = 4096
"""Last bytes of a response in which its usage is looked for."""
_USAGE = re.compile(rb'"(?:completion_tokens|output_tokens)"\s*:\s*(\d{1,9})')
_EVENT = b"data:"
_DONE_EVENTS = 2
"""Events of a stream that bring no token: the first, with the role, and the last."""


class ResponseMeter:
    """Takes the usage that the response tells, or else the number of events of a stream."""

    def __init__(self, *, is_stream: bool) -> None:
        self._is_stream = is_stream
        self._event_count = 0
        self._tail = b""

    def add(self, piece: bytes) -> None:
        """Takes in a piece of the body."""
        if self._is_stream:
            # An event whose name lies in two pieces is missed: this is an estimate.
            self._event_count += piece.count(_EVENT)
        self._tail = (self._tail + piece[-TAIL_BYTES:])[-TAIL_BYTES:]

    def token_count(self) -> int:
        """Returns the tokens of the output. 0: not known."""
        found = _USAGE.findall(self._tail)
        return int(found[-1]) if found else max(0, self._event_count - _DONE_EVENTS)
