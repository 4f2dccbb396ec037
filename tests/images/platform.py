"""The platform of the chart in containers of this machine."""

import json
import subprocess
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
from tests.images.podman import inspect, logs, podman, succeeds
from tests.images.pods import Cluster, PlayedPod

NETWORK, SUBNET = "headrace-images", "10.89.77"
SECONDS = 120.0
LOGS = Path("build/images")
"""Folder for what replaced containers said."""
IMAGES = {"registry": "localhost", "tag": "test"}
PLAIN: dict[str, Any] = {"image": IMAGES, "nats": {"image": NATS, "storage": {"size": ""}}}
GUARDED: dict[str, Any] = {
    "image": IMAGES,
    "certificates": {"enabled": True},
    "nats": {"image": NATS, "storage": {"size": ""}, "replicas": 3},
    "gateway": {"replicas": 2, "drainSeconds": 60, "graceSeconds": 70},
    **{service: {"replicas": 2} for service in ("tokenizer", "scheduler", "cache")},
    "workerDefaults": {"replicas": 2, "settings": {"thread_count": 1}},
}
"""Everything between services is mutual TLS, NATS a cluster, and each service there twice."""


@dataclass(frozen=True)
class Platform:
    """Pods that run."""

    cluster: Cluster

    @property
    def pods(self) -> list[PlayedPod]:
        """Pods that run on, without the test of the chart."""
        return [each for each in self.cluster.pods if "test" not in each.name]

    def of(self, role: str) -> list[PlayedPod]:
        """Pods of a role."""
        return [each for each in self.cluster.pods if each.labels["app.kubernetes.io/component"] == role]

    def pod(self, role: str) -> PlayedPod:
        return self.of(role)[0]

    def replace(self, pod: PlayedPod) -> float:
        """Stops a Pod as kubelet does, and makes another in its place, with empty folders. Returns the seconds that it
        took to stop, once the new one is ready as its readiness probe would say."""
        began = time.monotonic()
        grace = pod.spec["terminationGracePeriodSeconds"]
        podman("stop", "--time", str(grace), pod.container, seconds=grace + 30)
        stopped = time.monotonic() - began
        code, said = inspect(pod.container)["State"]["ExitCode"], logs(pod.container)
        (LOGS / f"{pod.name}.log").write_text(said)
        # NATS answers a stop with 1 where the signal comes to the first process.
        assert code == 0 or pod in self.of("nats"), (pod.name, code, said[-3000:])
        podman("pod", "rm", "--force", pod.name)
        self.play(pod)
        self.wait_until_routable(pod)
        return stopped

    def wait_until_routable(self, pod: PlayedPod) -> None:
        deadline = time.monotonic() + SECONDS
        while not self._is_routable(pod):
            assert time.monotonic() < deadline, logs(pod.container)[-3000:]
            time.sleep(0.2)

    def _is_routable(self, pod: PlayedPod) -> bool:
        """NATS has no health check in its image: that of its HTTP port."""
        if pod in self.of("nats"):
            return is_answered(f"http://{pod.address}:8222/healthz")
        return succeeds("exec", pod.container, "python", "/opt/headrace/health.py", "routable")

    def call(self, path: str, body: object = None) -> Any:
        """Calls the gateway. Raises OSError."""
        data = None if body is None else json.dumps(body).encode()
        url = f"http://{self.pod('gateway').address}:8000{path}"
        request = urllib.request.Request(url, data, {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())

    def play(self, pod: PlayedPod) -> None:
        text = yaml.safe_dump(self.cluster.yaml_of(pod))
        # Neighbours remember the hardware address of a Pod that is replaced at its address.
        mac = f"02:00:00:00:00:{int(pod.address.rpartition('.')[2]):02x}"
        podman("play", "kube", "--network", NETWORK, "--ip", pod.address, "--mac-address", mac, "-", text=text)

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + SECONDS
        while not self._is_ready():
            assert time.monotonic() < deadline, "\n".join(f"{each.name}: {logs(each.container)}" for each in self.pods)
            time.sleep(0.2)

    def _is_ready(self) -> bool:
        return all(is_answered(f"http://{each.address}:8000/ready") for each in self.of("gateway"))


def is_answered(url: str) -> bool:
    """Whether a GET is answered with 200."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


@contextmanager
def played(chart: Chart, values: dict[str, Any], folder: Path) -> Iterator[Platform]:
    """Plays the chart's Pods in a network of their own, and removes them."""
    platform = Platform(Cluster(chart.render(values), folder, SUBNET))
    remove(platform)
    podman("network", "create", "--subnet", f"{SUBNET}.0/24", NETWORK)
    try:
        for pod in platform.pods:
            platform.play(pod)
        keep_bridge_address()
        platform.wait_until_ready()
        yield platform
    finally:
        for pod in platform.pods:
            (LOGS / f"{pod.name}.last.log").write_text(logs(pod.container))
        remove(platform)


def keep_bridge_address() -> None:
    """Gives the bridge the hardware address that it has: else it takes that of another port whenever a Pod is gone, and
    what Pods send to this machine is lost for a minute."""
    (network,) = json.loads(podman("network", "inspect", NETWORK))
    bridge = network["network_interface"]
    address = Path(f"/sys/class/net/{bridge}/address").read_text().strip()
    subprocess.run(["ip", "link", "set", "dev", bridge, "address", address], check=True)


def remove(platform: Platform) -> None:
    for pod in platform.cluster.pods:
        podman("pod", "rm", "--force", pod.name, check=False)
    podman("network", "rm", "--force", NETWORK, check=False)
