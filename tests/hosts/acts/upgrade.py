"""An upgrade under load: process by process, from one release to another, and back."""

import signal

from tests.faults.fault import Act, Fault, Scene
from tests.hosts.acts.host_shape import HOSTS, hosts_in
from tests.hosts.acts.hosts_lost import GRACE_SECONDS, ROLLING, wait_until_whole
from tests.hosts.fleet_plan import NATS_NAMES, kind_of
from tests.hosts.release import Release

ORDER = ("worker", "cache", "tokenizer", "scheduler", "gateway")


def replace_each(release: Release, kinds: tuple[str, ...] = ORDER) -> Act:
    """Stops one service after the other and starts it with the code of a release, in the order of the kinds."""

    async def act(scene: Scene) -> None:
        platform = hosts_in(scene)
        services = [name for name in platform.names() if name not in NATS_NAMES]
        for name in sorted(services, key=lambda name: kinds.index(kind_of(name))):
            platform.install(name, release)
            await restart(scene, name)

    return act


async def restart(scene: Scene, name: str) -> None:
    """Has a process end as an init system does, and waits until the platform is whole with the next one."""
    platform = hosts_in(scene)
    scene.mark()
    platform.hold([name])
    platform.send(name, signal.SIGTERM)
    await platform.ended([name], GRACE_SECONDS)
    platform.release([name])
    await wait_until_whole(scene)


def upgrade(release: Release, what: str, kinds: tuple[str, ...] = ORDER) -> Fault:
    """The fault of an upgrade: no promise is weaker for it."""
    return Fault(what, HOSTS, replace_each(release, kinds), ROLLING)
