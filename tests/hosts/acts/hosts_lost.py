"""Whole hosts that die, that nothing reaches, that are drained, or whose clock is wrong."""

import signal
from collections.abc import Callable

from tests.faults import set_back_clock
from tests.faults.fault import Act, Fault, Promise, Scene
from tests.faults.signals import FROZEN_SECONDS
from tests.hosts.acts.host_shape import HOSTS, hosts_in
from tests.hosts.fleet_plan import PLACES
from tests.hosts.host_platform import GATEWAYS, HostPlatform

AWAY_SECONDS = 8.0
AHEAD_SECONDS = 3600
GRACE_SECONDS = 30.0
WHOLE_SECONDS = 60.0


async def wait_until_whole(scene: Scene) -> None:
    """Waits under traffic. Raises TimeoutError."""
    if not await hosts_in(scene).wait_until_whole(WHOLE_SECONDS):
        raise TimeoutError(f"not whole again after {WHOLE_SECONDS} s")


def host_dies(host: str) -> Act:
    """Ends a host without a word, and starts it again later."""

    async def act(scene: Scene) -> None:
        platform = hosts_in(scene)
        scene.mark()
        platform.die(host)
        await scene.pause(AWAY_SECONDS)
        scene.mark()
        await platform.boot(host)
        await wait_until_whole(scene)

    return act


async def all_die(scene: Scene) -> None:
    """Ends every host at once, as where power fails, and starts all again."""
    platform = hosts_in(scene)
    scene.mark()
    for host in PLACES:
        platform.die(host)
    await scene.pause(AWAY_SECONDS)
    for host in PLACES:
        await platform.boot(host)
    await wait_until_whole(scene)
    scene.mark()


def cut(host: str, *ways: Callable[[HostPlatform, str], None]) -> Act:
    """Cuts the link of a host in some directions, for longer than any silence after which it is to be given up."""

    async def act(scene: Scene) -> None:
        platform = hosts_in(scene)
        platform.lost_gateways.update(name for name in PLACES[host] if name in GATEWAYS)
        scene.mark()
        for way in ways:
            way(platform, host)
        await scene.pause(FROZEN_SECONDS)
        scene.mark()
        platform.network.heal()

    return act


def cut_to(platform: HostPlatform, host: str) -> None:
    platform.network.cut_to(host)


def cut_from(platform: HostPlatform, host: str) -> None:
    platform.network.cut_from(host)


async def drain_each(scene: Scene) -> None:
    """Has all processes of a host end as for maintenance, and starts it again: one host after the other."""
    platform = hosts_in(scene)
    for host, names in PLACES.items():
        scene.mark()
        platform.hold(names)
        for name in names:
            platform.send(name, signal.SIGTERM)
        await platform.ended(names, GRACE_SECONDS)
        platform.release(PLACES[host])
        await wait_until_whole(scene)


def set_clock_ahead(host: str) -> Act:
    """Starts the services of a host with a clock that is an hour ahead, and later with the right one."""

    async def act(scene: Scene) -> None:
        platform = hosts_in(scene)
        services = [name for name in PLACES[host] if "-m" in platform.members[name].command]
        right = {name: platform.members[name].command for name in services}
        for name, command in right.items():
            module = command.index("-m")
            script = [set_back_clock.__file__, str(-AHEAD_SECONDS)]
            platform.members[name].command = [*command[:module], *script, *command[module + 1 :]]
        await _restart(scene, services)
        await wait_until_whole(scene)
        await scene.pause(AWAY_SECONDS)
        for name, command in right.items():
            platform.members[name].command = command
        await _restart(scene, services)
        await wait_until_whole(scene)

    return act


async def _restart(scene: Scene, names: list[str]) -> None:
    platform = hosts_in(scene)
    scene.mark()
    platform.lost_gateways.update(name for name in names if name in GATEWAYS)
    platform.hold(names)
    for name in names:
        platform.send(name, signal.SIGKILL)
    await platform.ended(names, GRACE_SECONDS)
    platform.release(names)


SILENT = Promise(stall=3.0)
"""Streams of other gateways wait no longer for a host than for a frozen process, and a second of a busy machine."""
ROLLING = Promise(recovery=None, stall=3.0)
"""Promise for one restart after the other: how soon each lets new requests through is seen at each kind alone."""
DEATHS = [Fault(f"host {host} dies", HOSTS, host_dies(host), SILENT) for host in PLACES]
POWER = [Fault("all hosts die at once", HOSTS, all_die, Promise(failures=True, recovery=None))]
CUTS = [
    Fault(f"host {host} {what}", HOSTS, cut(host, *ways), SILENT)
    for host in PLACES
    for what, ways in (
        ("is cut off", (cut_to, cut_from)),
        ("gets nothing", (cut_to,)),
        ("is not heard", (cut_from,)),
    )
]
DRAINS = [Fault("every host is drained, one after the other", HOSTS, drain_each, ROLLING)]
CLOCKS = [Fault(f"clock of host {host} an hour ahead", HOSTS, set_clock_ahead(host), SILENT) for host in PLACES]
FAULTS = [*DEATHS, *POWER, *CUTS, *DRAINS, *CLOCKS]
