"""Faults by signals, on what `headrace up` runs: killed, told to end, frozen for a while."""

import asyncio
import contextlib
import signal

from tests.faults.fault import Act, Fault, Promise, Scene
from tests.faults.platforms import signal_to
from tests.faults.shapes import CROWDED, PLAYED, REAL, STATES

FROZEN_SECONDS = 6.5
"""Longer than any silence after which a service is to be given up."""
ROLLING_SECONDS = 6.0
"""Between two services of a rolling restart."""
SERVICES = ("worker-0", "scheduler", "tokenizer", "cache", "nats", "gateway")


def send(number: signal.Signals, *names: str) -> Act:
    """Sends a signal to processes, one right after the other."""

    async def act(scene: Scene) -> None:
        scene.mark()
        for name in names:
            signal_to(scene.platform, scene.platform.first(name), number)

    return act


def freeze(*names: str) -> Act:
    """Stops processes, then resumes the ones that have not been replaced."""

    async def act(scene: Scene) -> None:
        scene.mark()
        pids = {name: scene.platform.pid(scene.platform.first(name)) for name in names}
        await send(signal.SIGSTOP, *names)(scene)
        await scene.pause(FROZEN_SECONDS)
        scene.mark()
        for name, pid in pids.items():
            with contextlib.suppress(ProcessLookupError):  # It is just being replaced.
                if scene.platform.pid(scene.platform.first(name)) == pid:
                    signal_to(scene.platform, scene.platform.first(name), signal.SIGCONT)

    return act


def then(first: Act, name: str) -> Act:
    """Kills a process as well, a second after `first` has begun."""

    async def kill(scene: Scene) -> None:
        await scene.pause(1.0)
        await send(signal.SIGKILL, name)(scene)

    async def act(scene: Scene) -> None:
        await asyncio.gather(first(scene), kill(scene))

    return act


async def roll(scene: Scene) -> None:
    """Restarts everything, one after the other."""
    for name in scene.platform.names():
        scene.mark()
        signal_to(scene.platform, name, signal.SIGTERM)
        await scene.pause(ROLLING_SECONDS)


def _promise(name: str, stall: float) -> Promise:
    """Streams of other services than the one that was hit go on."""
    ends_streams = name == "gateway"
    return Promise(failures=ends_streams, stall=None if ends_streams else stall)


KILLED = [
    *(Fault(f"{name} killed", PLAYED, send(signal.SIGKILL, name), _promise(name, 1.0)) for name in SERVICES),
    *(
        Fault(f"worker killed, most requests in {stage}", PLAYED, send(signal.SIGKILL, "worker-0"), pool=stage)
        for stage in ("prefill", "decode", "flush")
    ),
]
TOLD = [Fault(f"{name} told to end", PLAYED, send(signal.SIGTERM, name), Promise(stall=1.0)) for name in SERVICES]
FROZEN = [Fault(f"{name} frozen", PLAYED, freeze(name), _promise(name, 2.0)) for name in SERVICES]
TWO = [
    Fault("both workers killed", PLAYED, send(signal.SIGKILL, "worker-0", "worker-1"), Promise(recovery=None)),
    Fault("worker and scheduler killed", PLAYED, send(signal.SIGKILL, "worker-0", "scheduler")),
    Fault("worker and NATS killed", PLAYED, send(signal.SIGKILL, "worker-0", "nats")),
    Fault("scheduler and NATS killed", PLAYED, send(signal.SIGKILL, "scheduler", "nats")),
    Fault("worker and tokenizer frozen", PLAYED, freeze("worker-0", "tokenizer")),
    Fault("worker frozen, scheduler killed", PLAYED, then(freeze("worker-0"), "scheduler")),
]
ROLLING = [Fault("rolling restart of everything", PLAYED, roll, Promise(recovery=None))]
QUEUED = [
    Fault(f"{name} killed, most requests queued", CROWDED, send(signal.SIGKILL, name), Promise(recovery=None))
    for name in ("worker-0", "scheduler")
]
ON_A_MODEL = [
    Fault("worker of the model killed", REAL, send(signal.SIGKILL, "worker-0"), Promise(stall=1.0)),
    Fault("worker of the model told to end", REAL, send(signal.SIGTERM, "worker-0"), Promise(stall=1.0)),
    Fault("worker of the model frozen", REAL, freeze("worker-0"), Promise(stall=2.0)),
    Fault("worker of the encoder killed", REAL, send(signal.SIGKILL, "worker-2"), Promise(stall=1.0)),
    Fault(
        "both workers of the model killed", REAL, send(signal.SIGKILL, "worker-0", "worker-1"), Promise(recovery=None)
    ),
    Fault("rolling restart, with models", REAL, roll, Promise(recovery=None)),
]
WITH_STATES = [
    Fault("worker of states killed", STATES, send(signal.SIGKILL, "worker-0"), Promise(stall=2.0)),
    Fault("worker of states told to end", STATES, send(signal.SIGTERM, "worker-0"), Promise(stall=2.0)),
    Fault("worker of states frozen", STATES, freeze("worker-0"), Promise(stall=2.0)),
    Fault(
        "both workers of states killed", STATES, send(signal.SIGKILL, "worker-0", "worker-1"), Promise(recovery=None)
    ),
]
FAULTS = [*KILLED, *TOLD, *FROZEN, *TWO, *ROLLING, *QUEUED, *ON_A_MODEL, *WITH_STATES]
