"""The platform of the chart in containers of this machine."""

import json
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from tests.deploy.chart.rendering import Chart
from tests.images.build_offline import NATS
from tests.images.podman import logs, podman
from tests.images.pods import Cluster, PlayedPod

NETWORK, SUBNET = "headrace-images", "10.89.77"
SECONDS = 120.0
IMAGES = {"registry": "localhost", "tag": "test"}
PLAIN: dict[str, Any] = {"image": IMAGES, "nats": {"image": NATS, "storage": {"size": ""}}}
GUARDED: dict[str, Any] = {
    "image": IMAGES,
    "certificates": {"enabled": True},
    "nats": {"image": NATS, "storage": {"size": ""}, "replicas": 3},
    "scheduler": {"replicas": 2},
}
"""Everything between services is mutual TLS, and NATS a cluster."""


@dataclass(frozen=True)
class Platform:
    """Pods that run."""

    cluster: Cluster

    @property
    def pods(self) -> list[PlayedPod]:
        """Pods that run on, without the test of the chart."""
        return [each for each in self.cluster.pods if "test" not in each.name]

    def pod(self, role: str) -> PlayedPod:
        """The first Pod of a role."""
        return next(each for each in self.cluster.pods if each.labels["app.kubernetes.io/component"] == role)

    def call(self, path: str, body: object = None) -> Any:
        """Calls the gateway. Raises OSError."""
        data = None if body is None else json.dumps(body).encode()
        url = f"http://{self.pod('gateway').address}:8000{path}"
        request = urllib.request.Request(url, data, {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())

    def play(self, pod: PlayedPod) -> None:
        text = yaml.safe_dump(self.cluster.yaml_of(pod))
        podman("play", "kube", "--network", NETWORK, "--ip", pod.address, "-", text=text)

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + SECONDS
        while not self._is_ready():
            assert time.monotonic() < deadline, "\n".join(f"{each.name}: {logs(each.container)}" for each in self.pods)
            time.sleep(0.2)

    def _is_ready(self) -> bool:
        try:
            self.call("/ready")
        except OSError:
            return False
        return True


@contextmanager
def played(chart: Chart, values: dict[str, Any], folder: Path) -> Iterator[Platform]:
    """Plays the chart's Pods in a network of their own, and removes them."""
    platform = Platform(Cluster(chart.render(values), folder, SUBNET))
    remove(platform)
    podman("network", "create", "--subnet", f"{SUBNET}.0/24", NETWORK)
    try:
        for pod in platform.pods:
            platform.play(pod)
        platform.wait_until_ready()
        yield platform
    finally:
        remove(platform)


def remove(platform: Platform) -> None:
    for pod in platform.cluster.pods:
        podman("pod", "rm", "--force", pod.name, check=False)
    podman("network", "rm", "--force", NETWORK, check=False)
