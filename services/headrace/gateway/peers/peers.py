"""The other gateways of the platform, and what they know of requests."""

import json
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from headrace.gateway.peers.request_query import RequestQuery

ANSWER_SECONDS = 0.5
"""Maximum seconds that the others have to answer. Slower ones are left out."""
SILENCE_SECONDS = 3.5
"""Seconds without a heartbeat, one of which comes every second, after which a gateway is not waited for."""

Json = dict[str, Any]
Ask = Callable[[RequestQuery, int, float], Awaitable[Sequence[bytes]]]
"""Asks all other gateways: the question, the number of answers to wait for, and for how many seconds."""


class Peers:
    """Knows which gateways there are besides this one, and asks them. Without others nothing is sent."""

    def __init__(self, gateway_id: str, ask: Ask) -> None:
        self.gateway_id = gateway_id
        self._ask = ask
        self._heard: dict[str, float] = {}
        """Time of the last heartbeat of each other gateway, in monotonic seconds."""

    def note(self, gateway_id: str) -> None:
        """Notes a heartbeat."""
        if gateway_id != self.gateway_id:
            self._heard[gateway_id] = time.monotonic()

    def forget(self, gateway_id: str) -> None:
        """Forgets a gateway that has stopped."""
        self._heard.pop(gateway_id, None)

    @property
    def names(self) -> list[str]:
        """Names of the others with a recent heartbeat."""
        now = time.monotonic()
        self._heard = {name: at for name, at in self._heard.items() if now - at < SILENCE_SECONDS}
        return sorted(self._heard)

    async def ask(self, query: RequestQuery) -> list[Json]:
        """Returns the rows that the others answer in time."""
        count = len(self.names)
        return [json.loads(row) for row in await self._ask(query, count, ANSWER_SECONDS)] if count else []
