"""Random faults, one after the other and sometimes two at once, for minutes. The seed decides which."""

import asyncio
import contextlib
import signal
import time

from tests.faults.failing import HUNG_STEP_SECONDS, fail_for_a_while, fail_once
from tests.faults.fault import Act, Fault, Promise, Scene
from tests.faults.network import during, platform_in
from tests.faults.platforms import signal_to
from tests.faults.shapes import LINKED, REAL, STATES
from tests.harness.connection import Link

PAUSE_SECONDS = (0.5, 5.0)
SHORT_SECONDS = (0.2, 6.0)
TWICE = 0.25
"""The share of faults that another joins."""


def chaos(seconds: float) -> Act:
    """Acts for so long. Ends when the last fault has healed."""

    async def act(scene: Scene) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            acts = [_choose(scene) for _ in range(2 if scene.chance.random() < TWICE else 1)]
            await asyncio.gather(*(act(scene) for act in acts))
            await scene.pause(scene.chance.uniform(*PAUSE_SECONDS))

    return act


def _choose(scene: Scene) -> Act:
    choices = [_signal, _signal, _freeze, _engine, _bus]
    if scene.platform.is_linked:
        choices += [_cut, _cut, _reset]
    return scene.chance.choice(choices)


async def _signal(scene: Scene) -> None:
    name = scene.chance.choice([name for name in scene.platform.names() if not name.startswith("gateway")])
    scene.mark()
    signal_to(scene.platform, name, scene.chance.choice([signal.SIGKILL, signal.SIGTERM]))


async def _freeze(scene: Scene) -> None:
    name = scene.chance.choice([name for name in scene.platform.names() if not name.startswith("gateway")])
    scene.mark()
    try:
        pid = scene.platform.pid(name)
        signal_to(scene.platform, name, signal.SIGSTOP)
        await scene.pause(scene.chance.uniform(*SHORT_SECONDS))
        if scene.platform.pid(name) == pid:
            signal_to(scene.platform, name, signal.SIGCONT)
    except ProcessLookupError:
        return


async def _engine(scene: Scene) -> None:
    action = scene.chance.choice(["raise", "memory", "sleep 1", f"sleep {HUNG_STEP_SECONDS}"])
    # A worker that is frozen, or has nothing to do, does not get there.
    with contextlib.suppress(TimeoutError):
        await fail_once("engine.step", action, _worker(scene))(scene)


async def _bus(scene: Scene) -> None:
    await fail_for_a_while("bus.publish", scene.chance.choice(["drop", "twice", "swap"]), _worker(scene))(scene)


async def _cut(scene: Scene) -> None:
    link = scene.chance.choice(platform_in(scene).pairs())
    disturb = scene.chance.choice([Link.partition, Link.cut_there, Link.cut_back])
    await during(*link, disturb, scene.chance.uniform(*SHORT_SECONDS))(scene)


async def _reset(scene: Scene) -> None:
    scene.mark()
    platform_in(scene).link(*scene.chance.choice(platform_in(scene).pairs())).reset()


def _worker(scene: Scene) -> str:
    return scene.chance.choice([name for name in scene.platform.names() if name.startswith("worker")])


def faults(seconds: float) -> list[Fault]:
    """Chaos on links for two thirds of the time, on models for the rest."""
    promise = Promise(failures=True, recovery=None)
    return [
        Fault("chaos on every link", LINKED, chaos(seconds * 2 / 3), promise, linger=10.0),
        Fault("chaos on models", REAL, chaos(seconds / 6), promise, linger=10.0),
        Fault("chaos on states", STATES, chaos(seconds / 6), promise, linger=10.0),
    ]
