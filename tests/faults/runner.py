"""Runs faults: each under traffic, on a platform that faults of the same shape share until one of them breaks it."""

import asyncio
import contextlib
import math
import random
import time
import traceback
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from itertools import groupby

from tests.faults.asking import Answer, Question, asker
from tests.faults.fault import Fault, Scene
from tests.faults.linked_platform import linked
from tests.faults.observation import Observation, observe, recovery
from tests.faults.platforms import Platform, Shape, disarm, read_metrics, up, wait_until_whole, what_is_held
from tests.faults.questions import EVERYTHING, POOLS, PROBES, TEXT, pool
from tests.faults.traffic import Prober, Traffic, ask_undisturbed

WARM_UP_SECONDS = 1.5
POOL_SIZE = 40


@contextlib.asynccontextmanager
async def platform_of(shape: Shape) -> AsyncIterator[Platform]:
    """Starts the platform that a shape asks for."""
    async with linked(shape) if shape.linked else up(shape) as platform:
        yield platform


class Stage:
    """One running platform and what it answers undisturbed."""

    def __init__(self, shape: Shape, platform: Platform, seed: int) -> None:
        self._shape, self._platform, self._seed = shape, platform, seed
        self._undisturbed: dict[str, Answer] = {}
        self._task_count = 0.0
        """Tasks of the gateway before the first fault, with streams to all workers: those that a fault cut are opened
        again when something is asked, and so may be absent before the next."""
        self.tired = False
        """True once a fault left something broken, so that the next one wants a fresh platform."""

    async def run(self, fault: Fault) -> Observation:
        """Acts one fault out and says what came of it."""
        started = time.monotonic()
        questions = await self._prepare(fault.pool)
        before = await read_metrics(self._platform.http)
        scene = Scene(self._platform, random.Random(f"{self._seed} {fault.name}"))
        self._task_count = self._task_count or before["event_loop_tasks"]
        answers, probes, complaints = await self._play(fault, scene, questions)
        leaked = await what_is_held(self._platform.http, self._task_count)
        if not await wait_until_whole(self._platform, self._shape.worker_count):
            complaints.append("not whole again after 30 s")
        seen = observe(fault.name, answers, probes, self._undisturbed, scene.marks)
        seen.leaked, seen.complaints, seen.folder = leaked, complaints, self._platform.folder
        with contextlib.suppress(OSError):
            after = await read_metrics(self._platform.http)
            counted, counted_before = (metrics.get("resubmissions_total", 0.0) for metrics in (after, before))
            # A gateway that was started again counts from zero.
            seen.resubmissions = int(counted - counted_before if counted >= counted_before else counted)
        seen.seconds = time.monotonic() - started
        self.tired = bool(leaked or complaints or seen.hung)
        return seen

    async def _prepare(self, name: str) -> list[Question]:
        """The questions of a pool, once the right answers to them are known."""
        makers = POOLS.get(name) or (EVERYTHING if self._shape.has_encoder else TEXT)
        questions = pool(makers, self._seed, POOL_SIZE)
        unknown = [question for question in [*questions, *PROBES] if question.key not in self._undisturbed]
        self._undisturbed |= await ask_undisturbed(asker(self._platform.http), unknown)
        return questions

    async def _play(
        self, fault: Fault, scene: Scene, questions: Sequence[Question]
    ) -> tuple[list[Answer], list[Answer], list[str]]:
        """Traffic, the fault, and traffic again. Answers, probes and what went wrong with the fault itself."""
        complaints = []
        prober = Prober(asker(self._platform.http), PROBES)
        traffic = Traffic(asker(self._platform.http), questions, fault.clients, scene.chance)
        traffic.start()
        prober.start()
        await asyncio.sleep(WARM_UP_SECONDS)
        try:
            await fault.act(scene)
        except Exception as error:  # noqa: BLE001 - the others are still to run; the table says what happened
            traceback.print_exc()
            complaints.append(f"the fault could not be acted out: {error!r}")
        finally:
            disarm(self._platform)
        await asyncio.sleep(fault.linger)
        answers, probes = await asyncio.gather(traffic.stop(), prober.stop())
        # A machine that was busy just as the traffic ended is no platform that never recovers.
        await prober.ask_until(lambda: recovery(probes, scene.marks) < math.inf, fault.promise.recovery or 0.0)
        return answers, probes, complaints


async def run_faults(faults: Iterable[Fault], seed: int, on_row: Callable[[Fault, Observation], None]) -> None:
    """Runs all faults in the given order, those for one platform together. Calls `on_row` as each ends."""
    for shape, group in groupby(faults, key=lambda fault: fault.shape):
        waiting = list(group)
        while waiting:
            await _run_on_one(shape, waiting, seed, on_row)


async def _run_on_one(
    shape: Shape, waiting: list[Fault], seed: int, on_row: Callable[[Fault, Observation], None]
) -> None:
    """Runs faults on one platform until it must be replaced, and removes them from the list as it runs them."""
    fault, seen = waiting[0], None
    try:
        async with platform_of(shape) as platform:
            stage = Stage(shape, platform, seed)
            while waiting and not stage.tired:
                fault, seen = waiting[0], None
                seen = await stage.run(fault)
                waiting.pop(0)
                on_row(fault, seen)
    except Exception as error:  # noqa: BLE001 - as above
        traceback.print_exc()
        if seen is None:
            waiting.remove(fault)
        seen = Observation(
            fault.name, complaints=[f"the platform did not start or stop cleanly: {type(error).__name__}"]
        )
        on_row(fault, seen)
