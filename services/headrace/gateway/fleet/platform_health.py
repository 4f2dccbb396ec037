"""Health of the platform: it can answer with every service and at least one worker."""

import asyncio
from collections.abc import Mapping, Sequence

import grpc

from headrace.bus.bus import Bus
from headrace.gateway.fleet.fleet import Fleet
from headrace.rpc.health import is_serving

INTERVAL = 0.5
TIMEOUT = 1.0


class PlatformHealth:
    """Asks tokenizers, schedulers and caches how they are, again and again. One of a kind is enough."""

    def __init__(self, channels: Mapping[str, Sequence[grpc.aio.Channel]], fleet: Fleet, bus: Bus) -> None:
        self._channels = channels
        self._fleet = fleet
        self._bus = bus
        self._serving = dict.fromkeys(channels, False)
        self.stopping = False

    @property
    def ready(self) -> bool:
        return all(self._serving.values()) and self._fleet.attached_count > 0 and not self.stopping

    def report(self) -> dict[str, object]:
        """Tells people what is there and what is not."""
        services = {name: "ready" if serving else "not ready" for name, serving in self._serving.items()}
        return {
            "status": "ready" if self.ready else "stopping" if self.stopping else "not ready",
            "services": services | {"nats": "ready" if self._bus.connected else "not connected"},
            "workers_ready": self._fleet.attached_count,
            "models": sorted(self._fleet.models()),
        }

    async def watch(self) -> None:
        """Asks every service how it is, again and again, until cancelled."""
        while True:
            answers = await asyncio.gather(*(_is_one_serving(channels) for channels in self._channels.values()))
            self._serving = dict(zip(self._channels, answers, strict=True))
            await asyncio.sleep(INTERVAL)


async def _is_one_serving(channels: Sequence[grpc.aio.Channel]) -> bool:
    """Whether one of several processes serves. Does not wait for the others once one has said so."""
    asked = [asyncio.create_task(is_serving(channel, TIMEOUT)) for channel in channels]
    try:
        for answer in asyncio.as_completed(asked):
            if await answer:
                return True
        return False
    finally:
        for task in asked:
            task.cancel()
