"""Connections through a proxy, and the path that they share."""

import asyncio
from dataclasses import dataclass, field

from tests.harness.way import Way, pass_on, reset, swallow

from headrace.lifecycle import cancel_and_wait


@dataclass(eq=False)
class Link:
    """Path between two processes, in two directions: there, from the side that connects, and back."""

    there: Way = field(default_factory=Way)
    back: Way = field(default_factory=Way)
    connections: "set[Connection]" = field(default_factory=set)

    def partition(self) -> None:
        """Cuts both directions. New connections are accepted and hear nothing."""
        self.cut_there()
        self.cut_back()

    def cut_there(self) -> None:
        """Delivers nothing to the side that accepted."""
        self.there.cut()

    def cut_back(self) -> None:
        """Delivers nothing to the side that connects."""
        self.back.cut()

    def heal(self) -> None:
        self.there.heal()
        self.back.heal()

    def reset(self) -> None:
        """Ends every connection with RST on both sides."""
        for connection in list(self.connections):
            connection.reset()

    def half_open(self) -> None:
        """Ends every connection for the side that accepted; the other side is not told."""
        for connection in list(self.connections):
            connection.forget_target()


class Connection:
    """One connection through the proxy, both halves of it."""

    def __init__(self, link: Link, client: asyncio.StreamWriter, target: asyncio.StreamWriter) -> None:
        self._link, self._client, self._target = link, client, target
        self._half_open = asyncio.Event()

    async def run(self, from_client: asyncio.StreamReader, from_target: asyncio.StreamReader) -> None:
        """Passes bytes on until either side ends."""
        self._link.connections.add(self)
        there = asyncio.create_task(pass_on(from_client, self._target, self._link.there))
        back = asyncio.create_task(pass_on(from_target, self._client, self._link.back))
        try:
            await asyncio.wait({there, back}, return_when=asyncio.FIRST_COMPLETED)
            if self._half_open.is_set():
                await cancel_and_wait([there])
                await swallow(from_client)
        finally:
            self._link.connections.discard(self)
            await cancel_and_wait([there, back])

    def reset(self) -> None:
        for writer in (self._client, self._target):
            reset(writer)

    def forget_target(self) -> None:
        self._half_open.set()
        reset(self._target)
