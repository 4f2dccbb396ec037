"""Lines of a stream of server-sent events, and the place at which it can be resumed."""

import json
from typing import Any
from urllib.parse import quote

DONE = "[DONE]"
"""Data of the event that ends a stream."""
RESUME_SECONDS = 10.0
"""Seconds for which a client tries to resume a stream, from one event to the next."""
FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 0.02, 0.5
"""Seconds between two tries, which double with each."""


class EventLines:
    """Reads events (HTML, 9.2) of one answer, over as many connections as it takes. An event counts once it is whole:
    one whose connection breaks in the middle of it comes again."""

    def __init__(self) -> None:
        self.is_done = False
        """Whether the stream has ended."""
        self._stream_id = self._event_id = ""
        self._data = self._next_id = ""

    @property
    def resume_path(self) -> str | None:
        """Path of the rest of the stream. None: it cannot be resumed."""
        if not self._stream_id or not self._event_id:
            return None
        return f"/headrace/streams/{quote(self._stream_id)}?after={self._event_id}"

    def push(self, line: str) -> dict[str, Any] | None:
        """Reads a line, without its end. Returns the event that it completes, if it does. Raises ValueError for one
        that is no JSON object."""
        if not line:
            return self._event()
        name, _, value = line.partition(":")
        if name == "data":
            self._data += value.strip()
            self.is_done = self.is_done or self._data == DONE
        elif name == "id":
            self._next_id = value.strip()
        return None

    def reconnect(self) -> None:
        """Forgets the part of an event that came before the connection broke."""
        self._data = self._next_id = ""

    def _event(self) -> dict[str, Any] | None:
        data, event_id = self._data, self._next_id
        self._data = self._next_id = ""
        if not data or data == DONE:
            return None
        event = json.loads(data)
        if not isinstance(event, dict):
            raise ValueError(f"an event is no JSON object: {data[:100]!r}")
        if event_id:
            self._event_id = event_id
            self._stream_id = self._stream_id or str(event.get("id") or "")
        return event
