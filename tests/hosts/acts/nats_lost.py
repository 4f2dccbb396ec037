"""Servers of NATS that are lost: one, all of them, and all that they kept."""

import signal
from collections.abc import Sequence

from tests.faults.fault import Fault, Promise, Scene
from tests.hosts.acts.host_shape import HOSTS, hosts_in
from tests.hosts.acts.hosts_lost import AWAY_SECONDS, wait_until_whole
from tests.hosts.fleet_plan import NATS_NAMES

ALL_AWAY_SECONDS = 10.0
ENDED_SECONDS = 10.0


async def lose(scene: Scene, names: Sequence[str], seconds: float, *, is_emptied: bool = False) -> None:
    """Kills servers and starts them again later, with what they kept or without."""
    platform = hosts_in(scene)
    scene.mark()
    platform.hold(names)
    for name in names:
        platform.send(name, signal.SIGKILL)
    await platform.ended(names, ENDED_SECONDS)
    if is_emptied:
        for name in names:
            platform.forget(name)
    await scene.pause(seconds)
    scene.mark()
    platform.release(names)
    await wait_until_whole(scene)


async def lose_leader(scene: Scene) -> None:
    await lose(scene, [await hosts_in(scene).nats_leader()], AWAY_SECONDS)


async def lose_follower(scene: Scene) -> None:
    leader = await hosts_in(scene).nats_leader()
    await lose(scene, [scene.chance.choice([name for name in NATS_NAMES if name != leader])], AWAY_SECONDS)


async def lose_two(scene: Scene) -> None:
    """Leaves one server, which has no majority: news pass, and nothing is kept."""
    await lose(scene, NATS_NAMES[1:], ALL_AWAY_SECONDS)


async def lose_all(scene: Scene) -> None:
    await lose(scene, NATS_NAMES, ALL_AWAY_SECONDS)


async def empty_all(scene: Scene) -> None:
    await lose(scene, NATS_NAMES, 0.0, is_emptied=True)


FAULTS = [
    Fault("NATS: the leading server killed", HOSTS, lose_leader, Promise(stall=1.0)),
    Fault("NATS: another server killed", HOSTS, lose_follower, Promise(stall=1.0)),
    Fault("NATS: two servers away for 10 s", HOSTS, lose_two, Promise(stall=1.0)),
    Fault("NATS: all servers away for 10 s", HOSTS, lose_all, Promise(stall=1.0)),
    Fault("NATS: all servers restarted empty", HOSTS, empty_all, Promise(stall=1.0)),
]
