"""Events of one response in the background, kept while it runs and for a while after, for clients that read again."""

import asyncio
from collections.abc import AsyncGenerator


class EventLog:
    """Events in the order of their numbers, which begin at 0. Readers follow it until it is closed."""

    def __init__(self) -> None:
        self._events: list[bytes] = []
        self._grown = asyncio.Event()
        self.is_closed = False
        self.size = 0
        """Bytes of all events."""

    def append(self, event: bytes) -> None:
        """Adds an event, as it stands on the wire."""
        self._events.append(event)
        self.size += len(event)
        self._wake()

    def close(self) -> None:
        """Says that no event follows."""
        self.is_closed = True
        self._wake()

    async def after(self, number: int) -> AsyncGenerator[bytes, None]:
        """Yields the events after the one of this number, and later ones as they come."""
        index = number + 1
        while True:
            while index < len(self._events):
                yield self._events[index]
                index += 1
            if self.is_closed:
                return
            await self._grown.wait()

    def _wake(self) -> None:
        self._grown.set()
        self._grown = asyncio.Event()
