"""Acts faults out on a platform of several hosts, under traffic through a balancer, and judges what came of it."""

import asyncio
import contextlib
import random
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.faults.asking import OK, Answer
from tests.faults.comparison import compare
from tests.faults.fault import Fault, Scene
from tests.faults.observation import Observation, observe
from tests.faults.platforms import arm, read_metrics, what_is_held
from tests.faults.questions import PROBES, TEXT, pool, structured
from tests.faults.report import Verdict
from tests.faults.traffic import Prober, Traffic, ask_undisturbed
from tests.hosts.host_platform import WORKERS, HostPlatform

WARM_UP_SECONDS = 1.5
POOL_SIZE = 40
CLIENT_COUNT = 8
"""Enough that each worker has several requests at any time, on two cores."""
STEP_SECONDS = 0.02
"""Added to each step of a worker, so that streams last, and the machine has time for everything else."""
PAUSE_INTERVAL = 0.02
MAX_PAUSE_SECONDS = 0.25
"""Longest pause of this process with which times are judged: a request passes eight more that may pause as well."""
TIMES = ("recovery >", "stall >")
"""Beginnings of broken promises that are about time."""
RESUME_SECONDS = 1.0
"""Longest time from the loss of a gateway to the next tokens of its streams, at another."""
LATE_SECONDS = 3.0
"""Time after a fault from which on no new request may fail."""


@dataclass
class HostVerdict:
    """A fault on several hosts, and what came of it."""

    verdict: Verdict
    cut: int = 0
    """Answers that had begun when their own gateway was lost, and cannot be resumed, as streams of several choices."""
    stranded: int = 0
    """Streams with ids that no gateway resumed."""
    cut_wrong: int = 0
    """Cut answers that had said something else than the beginning of what they were to say."""
    resumed: list[float] = field(default_factory=list)
    """Streams that were read on at another gateway: seconds from the loss of theirs to the next tokens."""
    retried: int = 0
    """Requests that another gateway was asked for."""
    slowest: float = 0.0
    """Longest time that a new small request took, in seconds."""
    pause: float = 0.0
    """Longest time for which this process itself got no core, in seconds: times of a busy machine say little."""
    late: int = 0
    """Failed requests that had begun LATE_SECONDS after a fault."""

    @property
    def seen(self) -> Observation:
        return self.verdict.seen

    @property
    def broken(self) -> list[str]:
        """Promises that were broken, in words; those about time only where the machine had time."""
        wrong = [f"{self.cut_wrong} cut answers differ"] if self.cut_wrong else []
        held = [text for text in self.verdict.broken if not (self.is_busy and text.startswith(TIMES))]
        if self.verdict.fault.promise.failures:
            return [*held, *wrong]
        lost = [f"{self.stranded} not resumed"] if self.stranded else []
        late = [f"{self.late} failed late"] if self.late else []
        slow = [f"resumed after {max(self.resumed):.1f} s"] if max(self.resumed, default=0.0) > RESUME_SECONDS else []
        return [*held, *wrong, *lost, *late, *([] if self.is_busy else slow)]

    @property
    def is_busy(self) -> bool:
        """Whether other programs kept the processors from this machine for so long that times are not judged."""
        return self.pause > MAX_PAUSE_SECONDS


@dataclass
class HostStage:
    """One running platform and what it answers undisturbed."""

    platform: HostPlatform
    seed: int
    undisturbed: dict[str, Answer] = field(default_factory=dict)

    async def run(self, fault: Fault) -> HostVerdict:
        """Acts one fault out."""
        started = time.monotonic()
        platform, balancer = self.platform, self.platform.balancer
        chance = random.Random(f"{self.seed} {fault.name}")
        questions = pool([*TEXT, structured], self.seed, POOL_SIZE)
        unknown = [each for each in [*questions, *PROBES] if each.key not in self.undisturbed]
        self.undisturbed |= await ask_undisturbed(balancer.ask, unknown)
        for worker in WORKERS:
            arm(platform, worker, "engine.step", f"sleep {STEP_SECONDS}")
        tasks = {url: (await read_metrics(url))["event_loop_tasks"] for url in balancer.urls.values()}
        balancer.cut, balancer.resumed, balancer.retried = [], [], 0
        platform.lost_gateways.clear()
        scene = Scene(platform, chance)
        traffic = Traffic(balancer.ask, questions, CLIENT_COUNT, chance)
        watching = asyncio.create_task(longest_pause())
        answers, probes, complaints = await self._play(fault, scene, traffic)
        watching.cancel()
        if not await platform.wait_until_whole():
            complaints.append("not whole again after 60 s")
        verdict = self._judge(fault, scene, answers, probes)
        verdict.pause = await watching
        seen = verdict.seen
        for url, count in tasks.items():
            seen.leaked = {**seen.leaked, **await what_is_held(url, count)}
        seen.complaints, seen.folder, seen.seconds = complaints, platform.folder, time.monotonic() - started
        return verdict

    async def _play(self, fault: Fault, scene: Scene, traffic: Traffic) -> tuple[list[Answer], list[Answer], list[str]]:
        complaints = []
        prober = Prober(self.platform.balancer.ask, PROBES)
        traffic.start()
        prober.start()
        await asyncio.sleep(WARM_UP_SECONDS)
        try:
            await fault.act(scene)
        except Exception as error:  # noqa: BLE001 - what the requests saw is still to be counted
            traceback.print_exc()
            complaints.append(f"the fault could not be acted out: {error!r}")
        finally:
            self.platform.restore()
        await asyncio.sleep(fault.linger)
        answers, probes = await asyncio.gather(traffic.stop(), prober.stop())
        return answers, probes, complaints

    def _judge(self, fault: Fault, scene: Scene, answers: list[Answer], probes: list[Answer]) -> HostVerdict:
        """Sets aside what ended with its own gateway."""
        balancer = self.platform.balancer
        cut = [answer for name, answer in balancer.cut if name in self.platform.lost_gateways]
        gone = {id(answer) for answer in cut}
        kept = [answer for answer in answers if id(answer) not in gone]
        kept_probes = [answer for answer in probes if id(answer) not in gone]
        seen = observe(fault.name, kept, kept_probes, self.undisturbed, scene.marks)
        return HostVerdict(
            Verdict(fault, seen),
            cut=len(cut),
            stranded=sum(bool(answer.lines.resume_path) for answer in cut),
            cut_wrong=count_wrong(cut, self.undisturbed),
            resumed=[each.seconds for each in balancer.resumed],
            retried=balancer.retried,
            slowest=max((answer.seconds for answer in kept_probes), default=0.0),
            late=sum(is_late(answer, scene.marks) for answer in [*kept, *kept_probes] if answer.outcome != OK),
        )


async def longest_pause() -> float:
    """Measures until cancelled how late a timer of this process fires at most, in seconds."""
    longest = 0.0
    with contextlib.suppress(asyncio.CancelledError):
        while True:
            began = time.monotonic()
            await asyncio.sleep(PAUSE_INTERVAL)
            longest = max(longest, time.monotonic() - began - PAUSE_INTERVAL)
    return longest


def count_wrong(cut: list[Answer], undisturbed: Mapping[str, Answer]) -> int:
    """Counts answers that do not begin as the undisturbed one does."""
    return sum(not compare(answer, undisturbed[answer.question.key]).equal for answer in cut)


def is_late(answer: Answer, marks: list[float]) -> bool:
    """Whether a request began so long after the last thing that was done that it must not fail."""
    before = [mark for mark in marks if mark <= answer.start]
    return bool(before) and answer.start - before[-1] > LATE_SECONDS
