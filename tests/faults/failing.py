"""Faults inside the processes, by failpoints and by what surrounds them: engines, events, clocks, disks."""

import asyncio
import resource
import signal
import sys
from pathlib import Path

import psutil
from tests.faults.fault import Act, Fault, Promise, Scene
from tests.faults.network import platform_in
from tests.faults.platforms import arm, disarm, signal_to
from tests.faults.shapes import LINKED, PLAYED, REAL, STATES

WHILE_SECONDS = 5.0
HOUR_SECONDS = "3600"
HUNG_STEP_SECONDS = 30
"""Longer than any step, and than any bound on one."""
REACHED_SECONDS = 20.0
NATS_AWAY_SECONDS = 1.0
NATS_ABSENT_SECONDS = 8.0
"""Long enough for others to start without it, and to be asked."""


def fail_once(point: str, action: str, *names: str) -> Act:
    """Makes the next pass of each of these processes through a point fail. Raises TimeoutError when none comes by."""

    async def act(scene: Scene) -> None:
        scene.mark()
        armed = [arm(scene.platform, name, point, f"once {action}") for name in names]
        async with asyncio.timeout(REACHED_SECONDS):
            while any(path.exists() for path in armed):
                await scene.pause(0.01)

    return act


def fail_for_a_while(point: str, action: str, *names: str) -> Act:
    """Makes every pass through a point fail for WHILE_SECONDS."""

    async def act(scene: Scene) -> None:
        scene.mark()
        for name in names:
            arm(scene.platform, name, point, action)
        await scene.pause(WHILE_SECONDS)
        disarm(scene.platform)

    return act


async def forget_nats(scene: Scene) -> None:
    """Kills NATS and starts it again with an empty store."""
    platform = platform_in(scene)
    nats = platform.members["nats"]
    scene.mark()
    nats.hold()
    signal_to(platform, "nats", signal.SIGKILL)
    await nats.wait_until_ended()
    platform.forget_nats()
    await scene.pause(NATS_AWAY_SECONDS)
    nats.release()


async def start_without_nats(scene: Scene) -> None:
    """Kills NATS, then the gateway and the scheduler, which start again while there is no NATS."""
    platform = platform_in(scene)
    nats = platform.members["nats"]
    nats.hold()
    signal_to(platform, "nats", signal.SIGKILL)
    await nats.wait_until_ended()
    scene.mark()
    for name in ("gateway", "scheduler"):
        signal_to(platform, name, signal.SIGKILL)
    await scene.pause(NATS_ABSENT_SECONDS)
    nats.release()


async def set_clock_back(scene: Scene) -> None:
    """Kills a worker and starts it again with a clock that is an hour behind."""
    worker = platform_in(scene).members["worker-0"]
    script = Path(__file__).with_name("set_back_clock.py")
    module = worker.command[worker.command.index("-m") + 1 :]
    right = worker.command
    worker.command = [sys.executable, str(script), HOUR_SECONDS, *module]
    scene.mark()
    signal_to(scene.platform, "worker-0", signal.SIGKILL)
    await scene.pause(WHILE_SECONDS)
    worker.command = right


def fill_disk(*names: str) -> Act:
    """Lets processes write to no file any more, for a while: neither stores nor logs."""

    async def act(scene: Scene) -> None:
        scene.mark()
        pids = [scene.platform.pid(scene.platform.first(name)) for name in names]
        for pid in pids:
            _limit_files(pid, 0)
        await scene.pause(WHILE_SECONDS)
        for pid in pids:
            _limit_files(pid, resource.RLIM_INFINITY)

    return act


def _limit_files(pid: int, size: int) -> None:
    """Linux' way to a full disk without a disk: no file may grow beyond `size` bytes."""
    if psutil.pid_exists(pid):
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


ENGINES = [
    Fault("engine raises", PLAYED, fail_once("engine.step", "raise", "worker-0"), Promise(stall=1.0)),
    # The KV cache is given back, so that all that ran is computed again: some 5,000 tokens, 0.2 ms each.
    Fault("engine out of memory", PLAYED, fail_once("engine.step", "memory", "worker-0"), Promise(stall=2.0)),
    Fault(
        "engine step hangs",
        PLAYED,
        fail_once("engine.step", f"sleep {HUNG_STEP_SECONDS}", "worker-0"),
        Promise(stall=3.0),
        linger=8.0,
    ),
    Fault("steps of 0.3 s", PLAYED, fail_for_a_while("engine.step", "sleep 0.3", "worker-0"), Promise(recovery=None)),
    Fault("engine of the model raises", REAL, fail_once("engine.step", "raise", "worker-0"), Promise(stall=1.0)),
    Fault("engine of states raises", STATES, fail_once("engine.step", "raise", "worker-0"), Promise(stall=2.0)),
    Fault("engine of states out of memory", STATES, fail_once("engine.step", "memory", "worker-0"), Promise(stall=2.0)),
    Fault("engine of the encoder raises", REAL, fail_once("engine.step", "raise", "worker-2"), Promise(stall=1.0)),
]
DISPATCH = [
    Fault(
        "dispatch arrives 4 s late",
        PLAYED,
        fail_for_a_while("dispatch.arrive", "sleep 4", "worker-0"),
        Promise(stall=1.0),
    ),
    Fault(
        "dispatch answered 4 s late",
        PLAYED,
        fail_for_a_while("dispatch.answer", "sleep 4", "worker-0"),
        Promise(stall=1.0),
    ),
    Fault("dispatch fails", PLAYED, fail_for_a_while("dispatch.arrive", "raise", "worker-0"), Promise(stall=1.0)),
]
EVENTS = [
    Fault(
        f"events of workers {what}",
        PLAYED,
        fail_for_a_while("bus.publish", action, "worker-0", "worker-1"),
        Promise(stall=1.0),
    )
    for what, action in (("doubled", "twice"), ("out of order", "swap"), ("dropped", "drop"))
]
CACHES = [
    Fault(
        "values of the cache corrupt",
        PLAYED,
        fail_for_a_while("cache.value", "damage", "cache"),
        pool="remembered",
        clients=2,
    ),
    Fault(
        "writes of the cache fail",
        PLAYED,
        fail_for_a_while("cache.write", "disk_full", "cache"),
        pool="remembered",
        clients=2,
    ),
]
DISKS = [
    Fault("disk full for the cache", PLAYED, fill_disk("cache"), Promise(stall=1.0)),
    Fault("disk full for a worker", PLAYED, fill_disk("worker-0"), Promise(stall=1.0)),
    Fault("disk full for gateway and scheduler", PLAYED, fill_disk("gateway", "scheduler"), Promise(stall=1.0)),
]
MEMORIES = [
    Fault("NATS killed and empty", LINKED, forget_nats, Promise(stall=1.0)),
    Fault("gateway and scheduler start without NATS", LINKED, start_without_nats, Promise(failures=True)),
    Fault("worker restarted with its clock an hour behind", LINKED, set_clock_back, Promise(stall=1.0)),
]
FAULTS = [*ENGINES, *DISPATCH, *EVENTS, *CACHES, *DISKS, *MEMORIES]
