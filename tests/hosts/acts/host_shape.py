"""Scenes on several hosts."""

from tests.faults.fault import Scene
from tests.faults.platforms import Shape
from tests.hosts.host_platform import HostPlatform

HOSTS = Shape("hosts", worker_count=3)


def hosts_in(scene: Scene) -> HostPlatform:
    assert isinstance(scene.platform, HostPlatform)
    return scene.platform
