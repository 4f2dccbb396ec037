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
from tests.images.pods import Cluster, PlayedPod
from tests.images.podman import logs, podman

NETWORK, SUBNET = "headrace-images", "10.89.77"
SECONDS = 120.0
VALUES: dict[str, Any] = {
    "image": {"registry": "localhost", "tag": "test"},
    "nats": {"image": NATS, "storage": {"size": ""}},
}


@dataclass(frozen=True)
class Platform:
    """Pods that run."""

    cluster: Cluster

    @property
    def pods(self) -> list[PlayedPod]:
        """Pods that run on, without the test of the chart."""
        return [each for each in self.cluster.pods if "test" not in each.name]

    def pod(self, role: str) -> PlayedPod:
        (found,) = [each for each in self.cluster.pods if each.labels["app.kubernetes.io/component"] == role]
        return found

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
        while True:
            try:
                self.call("/ready")
                return
            except OSError as error:
                said = "\n".join(f"== {each.name}\n{logs(each.container)[-2000:]}" for each in self.pods)
                assert time.monotonic() < deadline, f"{error}\n{said}"
            time.sleep(0.2)


@contextmanager
def played(chart: Chart, folder: Path) -> Iterator[Platform]:
    """Plays the chart's Pods in a network of their own, and removes them."""
    platform = Platform(Cluster(chart.render(VALUES), folder, SUBNET))
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
