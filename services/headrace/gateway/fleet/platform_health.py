"""Health of the platform: it can answer while a tokenizer and a worker are up, or a worker would be started."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from headrace.gateway.fleet.fleet import Fleet
from headrace.gateway.fleet.model_memory import BusLink

INTERVAL, READY_INTERVAL = 0.25, 1.0
"""Seconds between questions: while the platform cannot answer, and while it can."""
NEEDED = frozenset({"tokenizer"})
"""Services without which nothing is answered. Without a scheduler the gateway places requests itself, and without a
cache all is computed: a load balancer that took it out then would turn a loss of speed into an outage."""
Question = Callable[[], Awaitable[bool]]
"""Asks one process whether it serves. Answers within its own deadline and never raises."""


class PlatformHealth:
    """Polls the health of tokenizers, schedulers and caches. One of each kind is enough."""

    def __init__(self, questions: Mapping[str, Sequence[Question]], fleet: Fleet, link: BusLink) -> None:
        """`questions`: one for each process, by service."""
        self._questions = questions
        self._fleet = fleet
        self._link = link
        self._serving = dict.fromkeys(questions, False)
        self._asked: set[asyncio.Future[bool]] = set()
        """Questions without an answer yet."""
        self.stopping = False

    @property
    def ready(self) -> bool:
        is_served = all(serving for name, serving in self._serving.items() if name in NEEDED)
        has_workers = self._fleet.attached_count > 0 or (self._fleet.keeps_models and self._serving["scheduler"])
        return is_served and has_workers and not self.stopping

    def report(self) -> dict[str, object]:
        """Reports, in readable form, which parts are up and which are not."""
        services = {name: "ready" if serving else "not ready" for name, serving in self._serving.items()}
        return {
            "status": "ready" if self.ready else "stopping" if self.stopping else "not ready",
            "services": services | {"nats": "ready" if self._link.connected else "not connected"},
            "workers_ready": self._fleet.attached_count,
            "models": sorted(self._fleet.models()),
        }

    async def watch(self) -> None:
        """Polls every service until cancelled."""
        try:
            while True:
                answers = await asyncio.gather(*map(self._is_one_serving, self._questions.values()))
                self._serving = dict(zip(self._questions, answers, strict=True))
                await asyncio.sleep(READY_INTERVAL if self.ready else INTERVAL)
        finally:
            for question in self._asked:
                question.cancel()

    async def _is_one_serving(self, questions: Sequence[Question]) -> bool:
        """Whether any of several processes serves. Returns as soon as one says so.

        The other questions end at their own deadlines. Cancelled, each would leave memory behind: grpcio does not free
        the operations of a cancelled call (grpc issue 43360).
        """
        asked = [asyncio.ensure_future(question()) for question in questions]
        self._asked.update(asked)
        for question in asked:
            question.add_done_callback(self._asked.discard)
        for answer in asyncio.as_completed(asked):
            if await answer:
                return True
        return False
