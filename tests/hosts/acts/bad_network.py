"""Networks that lose, delay, and lead to the wrong place."""

import signal

from tests.faults.fault import Act, Fault, Promise, Scene
from tests.hosts.acts.host_shape import HOSTS, hosts_in
from tests.hosts.acts.hosts_lost import SILENT, wait_until_whole
from tests.hosts.acts.upgrade import restart
from tests.hosts.fleet_plan import PLACES, host_of

WHILE_SECONDS = 10.0
LOSS, DELAY_SECONDS = 0.05, 0.05
LIE_SECONDS = 8.0
PARTED_SECONDS = 10.0


async def lose(scene: Scene) -> None:
    """Loses one packet in twenty, of all that pass between hosts, clients among them."""
    network = hosts_in(scene).network
    scene.mark()
    network.lose(LOSS)
    await scene.pause(WHILE_SECONDS)
    network.heal()


async def delay(scene: Scene) -> None:
    """Delays everything that a host sends, on every host."""
    network = hosts_in(scene).network
    scene.mark()
    for host in PLACES:
        network.slow(host, DELAY_SECONDS)
    await scene.pause(WHILE_SECONDS)
    network.quicken()


def part(these: tuple[str, ...], those: tuple[str, ...], leader: str = "") -> Act:
    """Has hosts of two groups not reach each other, while clients reach them all. `leader`: the scheduler that is to
    lead then."""

    async def act(scene: Scene) -> None:
        network = hosts_in(scene).network
        if leader:
            # The other one gives its models up.
            await restart(scene, next(name for name in SCHEDULERS if name != leader))
        scene.mark()
        network.part(these, those)
        await scene.pause(PARTED_SECONDS)
        scene.mark()
        network.heal()

    return act


def lie(name: str, instead: str) -> Act:
    """Has every host believe that a process is where another one is, or, without one, where nothing is. The process
    is restarted, so that others look for it, and then again when names are right."""

    async def act(scene: Scene) -> None:
        platform = hosts_in(scene)
        names = platform.addresses
        wrong = names[instead] if instead else platform.network.dead_address(host_of(name))
        platform.network.name(names | {name: wrong})
        scene.mark()
        platform.send(name, signal.SIGTERM)
        await scene.pause(LIE_SECONDS)
        platform.network.name(names)
        await wait_until_whole(scene)

    return act


SCHEDULERS = ("scheduler", "scheduler-1")
PARTS = [
    (("north",), ("east",), "scheduler"),
    (("north",), ("south",), "scheduler-1"),
    (("north",), ("west",), "scheduler"),
    (("east",), ("south",), "scheduler-1"),
    (("east",), ("west",), ""),
    (("south",), ("west",), "scheduler-1"),
    (("north", "east"), ("south", "west"), "scheduler-1"),
    (("north", "south"), ("east", "west"), "scheduler"),
    (("north", "west"), ("east", "south"), "scheduler"),
]
"""Groups that do not reach each other, and the scheduler that makes the most of it: one that a gateway does not see."""
TOKENLESS = ("north", "west")
"""Group with a gateway and without a tokenizer."""
WAITING = Promise(recovery=None, stall=3.0)
"""Promise where requests that come before a gateway says that it is not ready wait for a tokenizer, 15 s at most."""
LIES = [
    ("scheduler", "scheduler-1"),
    ("scheduler", "gateway-1"),
    ("tokenizer", ""),
    ("tokenizer", "cache-1"),
    ("cache", ""),
    ("worker-1", ""),
    ("worker-1", "worker-2"),
    ("nats-1", ""),
]
FAULTS = [
    Fault("5 % of packets lost", HOSTS, lose, Promise(recovery=None)),
    Fault("everything 50 ms late", HOSTS, delay, Promise(recovery=None)),
    *(
        Fault(
            f"{' and '.join(these)} | {' and '.join(those)} cut",
            HOSTS,
            part(these, those, leader),
            WAITING if these == TOKENLESS else SILENT,
        )
        for these, those, leader in PARTS
    ),
    *(
        Fault(f"{name} is named at {other or 'a dead address'}", HOSTS, lie(name, other), SILENT)
        for name, other in LIES
    ),
]
