"""Clients of a platform with several gateways: in front of them, what a load balancer does."""

import asyncio
import itertools
import time
from collections.abc import Mapping
from dataclasses import dataclass

import httpx2
from tests.faults.asking import BROKEN, OK, Answer, Question, ask

INTERVAL = 0.25
"""Seconds between two looks at a gateway."""
SILENCE_SECONDS = 1.0
FAILURES = 2
"""Looks without an answer after which a gateway is given up, with all that it was asked."""
CUT = "cut"
"""Outcome of an answer that had begun when its gateway was given up."""
UNAVAILABLE = ("502", "503", "504")
UNKNOWN = "404"
RESUME_SECONDS = 10.0
"""Time for which a stream is asked for elsewhere once its gateway is lost."""
PAUSE_SECONDS = 0.05
"""Time between two tries."""


@dataclass(frozen=True)
class Resumed:
    """A stream that was read on at another gateway."""

    lost: str
    """Name of the gateway that it began at."""
    seconds: float
    """Time from the loss to the next tokens."""


class Balancer:
    """Spreads requests over the gateways that are ready, asks another where one fails before it says anything, and
    resumes streams whose gateway is lost."""

    def __init__(self, urls: Mapping[str, str]) -> None:
        """`urls`: by the names of the gateways."""
        self.urls = urls
        self.cut: list[tuple[str, Answer]] = []
        """Gateways that were given up, or broke off, in the middle of an answer."""
        self.resumed: list[Resumed] = []
        self.retried = 0
        self._silent = dict.fromkeys(urls, 0)
        self._ready = set(urls)
        self._open: dict[str, set[asyncio.Task[Answer]]] = {name: set() for name in urls}
        self._turns = itertools.count()
        self._looking: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._looking = [asyncio.create_task(self._look(name), name=f"look-{name}") for name in self.urls]

    async def stop(self) -> None:
        for task in self._looking:
            task.cancel()
        await asyncio.gather(*self._looking, return_exceptions=True)

    async def ask(self, question: Question) -> Answer:
        """Asks one gateway, and then the others where that may change the outcome."""
        began = time.monotonic()
        left = self._in_turn()
        while True:
            name = left.pop(0)
            answer = Answer(question, began)
            await self._ask(name, answer)
            has_begun = any(choice.token_ids or choice.text for choice in answer.choices.values())
            if answer.outcome in (BROKEN, CUT) and (has_begun or answer.lines.resume_path):
                await self._resume(name, answer)
                return answer
            if has_begun or not left or not _may_be_retried(answer):
                return answer
            self.retried += 1

    async def _resume(self, lost: str, answer: Answer) -> None:
        """Reads the rest of a stream at other gateways, where one has it in time."""
        count, began = len(answer.event_times), time.monotonic()
        while answer.lines.resume_path and time.monotonic() - max([began, *answer.event_times]) < RESUME_SECONDS:
            await self._ask(self._in_turn()[0], answer)
            if not (_may_be_retried(answer) or answer.outcome.startswith(UNKNOWN)):
                break
            await asyncio.sleep(PAUSE_SECONDS)
        if answer.outcome == OK:
            self.resumed.append(Resumed(lost, next(iter(answer.event_times[count:]), answer.end) - began))
        elif answer.outcome in (BROKEN, CUT):
            answer.outcome = CUT
            self.cut.append((lost, answer))

    def _in_turn(self) -> list[str]:
        """Returns the gateways' names, ready ones first."""
        names = list(self.urls)
        start = next(self._turns) % len(names)
        turned = names[start:] + names[:start]
        return sorted(turned, key=lambda name: name not in self._ready)

    async def _ask(self, name: str, answer: Answer) -> None:
        task = asyncio.create_task(ask(self.urls[name], answer.question, answer=answer))
        self._open[name].add(task)
        try:
            await asyncio.wait({task})
        finally:
            task.cancel()
            self._open[name].discard(task)
        if task.cancelled():
            answer.outcome, answer.end = CUT, time.monotonic()

    async def _look(self, name: str) -> None:
        async with httpx2.AsyncClient(timeout=SILENCE_SECONDS) as client:
            while True:
                await self._look_once(client, name)
                await asyncio.sleep(INTERVAL)

    async def _look_once(self, client: httpx2.AsyncClient, name: str) -> None:
        is_ready = False
        try:
            is_ready = (await client.get(f"{self.urls[name]}/ready")).status_code == 200
        except httpx2.TimeoutException:
            self._silent[name] += 1
            if self._silent[name] < FAILURES:
                return
            for task in self._open[name]:
                task.cancel()
        except (httpx2.HTTPError, OSError):
            # Refused: a gateway that ends takes no more, and answers what it has.
            self._silent[name] = 0
        else:
            self._silent[name] = 0
        if is_ready:
            self._ready.add(name)
        else:
            self._ready.discard(name)


def _may_be_retried(answer: Answer) -> bool:
    return answer.outcome != OK and (answer.outcome in (BROKEN, CUT) or answer.outcome.startswith(UNAVAILABLE))
