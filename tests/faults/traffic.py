"""Clients that ask without a pause, and a prober that finds out when new requests work again."""

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from itertools import cycle

from tests.faults.asking import BROKEN, Answer, Asker, Question

PROBE_INTERVAL = 0.1
PAUSE_AFTER_FAILURE = 0.05
UNDISTURBED_AT_ONCE = 4


class Traffic:
    """Asks questions from several clients at once until stopped, and waits for every request to end."""

    def __init__(self, ask: Asker, questions: Sequence[Question], clients: int, chance: random.Random) -> None:
        self.answers: list[Answer] = []
        self._send, self._questions, self._chance = ask, questions, chance
        self._client_count = clients
        self._stopping = False
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self._ask(), name=f"client-{i}") for i in range(self._client_count)]

    async def stop(self) -> list[Answer]:
        """The answers, once everything asked has ended or shown that it hangs."""
        self._stopping = True
        await asyncio.gather(*self._tasks)
        return self.answers

    async def _ask(self) -> None:
        while not self._stopping:
            answer = await self._send(self._chance.choice(self._questions))
            self.answers.append(answer)
            if answer.outcome == BROKEN:
                await asyncio.sleep(PAUSE_AFTER_FAILURE)


class Prober:
    """Begins the next of a few small requests every PROBE_INTERVAL seconds, whether or not the last one has ended."""

    def __init__(self, ask: Asker, questions: Sequence[Question]) -> None:
        self.answers: list[Answer] = []
        self._send, self._questions = ask, cycle(questions)
        self._open: set[asyncio.Task[None]] = set()
        self._loop: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._loop = asyncio.create_task(self._probe(), name="prober")

    async def stop(self) -> list[Answer]:
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.gather(self._loop, return_exceptions=True)
        await asyncio.gather(*self._open)
        return self.answers

    async def ask_until(self, enough: Callable[[], bool], seconds: float) -> None:
        """Asks one probe after another until the answers are enough, or the time is over."""
        deadline = time.monotonic() + seconds
        while not enough() and time.monotonic() < deadline:
            await self._ask_once()

    async def _probe(self) -> None:
        while True:
            task = asyncio.create_task(self._ask_once())
            self._open.add(task)
            task.add_done_callback(self._open.discard)
            await asyncio.sleep(PROBE_INTERVAL)

    async def _ask_once(self) -> None:
        self.answers.append(await self._send(next(self._questions)))


async def ask_undisturbed(ask: Asker, questions: Sequence[Question]) -> dict[str, Answer]:
    """Returns the right answer to each question, by its key, from an undisturbed platform. Raises AssertionError."""
    found: dict[str, Answer] = {}
    queue = iter(questions)

    async def client() -> None:
        for question in queue:
            answer = await ask(question)
            assert answer.outcome == "ok", f"{question.name} fails undisturbed: {answer.outcome} {answer.message}"
            found[question.key] = answer

    await asyncio.gather(*(client() for _ in range(UNDISTURBED_AT_ONCE)))
    return found
