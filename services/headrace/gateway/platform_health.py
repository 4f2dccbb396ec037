"""Whether the platform can answer: every service, and at least one worker."""

import asyncio
import contextlib

import grpc

from headrace.bus.bus import Bus
from headrace.gateway.fleet import Fleet
from headrace.rpc.health import is_serving

INTERVAL = 0.5
TIMEOUT = 1.0


class PlatformHealth:
    """Asks tokenizer, scheduler and cache how they are, again and again."""

    def __init__(self, channels: dict[str, grpc.aio.Channel], fleet: Fleet, bus: Bus) -> None:
        self._channels = channels
        self._fleet = fleet
        self._bus = bus
        self._serving = dict.fromkeys(channels, False)
        self.stopping = False

    @property
    def ready(self) -> bool:
        return all(self._serving.values()) and self._fleet.attached_count > 0 and not self.stopping

    def report(self) -> dict[str, object]:
        """What is and what is not there, for people."""
        services = {name: "ready" if serving else "not ready" for name, serving in self._serving.items()}
        return {
            "status": "ready" if self.ready else "stopping" if self.stopping else "not ready",
            "services": services | {"nats": "ready" if self._bus.connected else "not connected"},
            "workers_ready": self._fleet.attached_count,
            "models": sorted(self._fleet.models()),
        }

    async def watch(self) -> None:
        """Until cancelled."""
        while True:
            names = list(self._channels)
            answers = await asyncio.gather(*(is_serving(self._channels[name], TIMEOUT) for name in names))
            self._serving = dict(zip(names, answers, strict=True))
            with contextlib.suppress(TimeoutError):
                await asyncio.sleep(INTERVAL)
