"""Every image runs confined as the chart says, a chat goes through containers, and they end within their grace."""

import json
import os
import subprocess
import time
import zipfile
from pathlib import Path

import pytest
from tests.images.platform import Platform
from tests.images.podman import inspect, logs, podman

SERVICES = ("gateway", "tokenizer", "scheduler", "cache", "worker")
ASKED = {"model": "headrace-demo", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 8}


def test_a_chat_goes_through_containers(platform: Platform) -> None:
    answer = platform.call("/v1/chat/completions", ASKED)
    assert answer["choices"][0]["message"]["content"]
    assert answer["usage"]["completion_tokens"] >= 1


def test_the_test_of_the_chart_passes(platform: Platform) -> None:
    """The Pod of `helm test`."""
    pod = platform.pod("test")
    platform.play(pod)
    assert podman("wait", pod.container).strip() == "0", logs(pod.container)
    assert "chat.completion" in logs(pod.container)


@pytest.mark.parametrize("role", SERVICES)
def test_containers_are_confined(platform: Platform, role: str) -> None:
    found = inspect(platform.pod(role).container)
    assert found["HostConfig"]["ReadonlyRootfs"] is True
    assert found["EffectiveCaps"] in ([], None)
    assert "no-new-privileges" in found["HostConfig"]["SecurityOpt"]
    assert found["Config"]["User"] == "10001:10001"
    assert found["HostConfig"]["Memory"] > 0


@pytest.mark.parametrize("role", SERVICES)
def test_the_health_check_of_the_image_is_content(platform: Platform, role: str) -> None:
    """And callers have found the service."""
    for about in ([], ["routable"]):
        podman("exec", platform.pod(role).container, "python", "/opt/headrace/health.py", *about)


def test_a_gateway_without_the_others_is_alive_and_quiet(platform: Platform) -> None:
    """Names that do not resolve leave no unfinished tasks, each of which asyncio would log."""
    name = "headrace-images-alone"
    variables = [f"HEADRACE_GATEWAY_{service.upper()}_ADDRESSES=no-{service}:9000" for service in SERVICES[1:4]]
    variables += ["HEADRACE_GATEWAY_HTTP_ADDRESS=0.0.0.0:8000", "HEADRACE_GATEWAY_LISTEN_ADDRESS=0.0.0.0:9000"]
    variables += ["HEADRACE_GATEWAY_NATS_URL=nats://no-nats:4222"]
    options = [option for each in variables for option in ("--env", each)]
    image = platform.pod("gateway").spec["containers"][0]["image"]
    confined = (
        "--read-only",
        "--tmpfs",
        "/tmp",
        "--cap-drop",
        "ALL",
        "--memory",
        "512m",
        "--network",
        "headrace-images",
    )
    podman("run", "--detach", "--name", name, *confined, *options, image)
    ask = "import urllib.request as r; print(r.urlopen('http://127.0.0.1:8000/health', timeout=5).status)"
    try:
        deadline = time.monotonic() + 60
        while podman("exec", name, "python", "-c", ask, check=False).strip() != "200":
            assert time.monotonic() < deadline, logs(name)
        # The time in which thirty-five pairs of errors were once logged.
        time.sleep(10)
        said = logs(name)
        assert "Task" not in said, said[-3000:]
        assert "Traceback" not in said, said[-3000:]
        podman("stop", "--time", "30", name)
        assert inspect(name)["State"]["ExitCode"] == 0
    finally:
        podman("rm", "--force", name)


def test_images_are_small(root: Path) -> None:
    """Sizes go to a table. A package that should not be in an image would be seen."""
    listed = json.loads(podman("images", "--format", "json"))
    sizes = {name: each["Size"] for each in listed for name in each.get("Names") or [] if name.endswith(":test")}
    found = {service: sizes[f"localhost/headrace-{service}:test"] / 1e6 for service in SERVICES}
    (root / "build/images/sizes.json").write_text(json.dumps(found))
    assert max(found.values()) < 450, found


def test_a_wheel_without_kernels_is_no_image(root: Path) -> None:
    """The check of the Dockerfile, on a wheel that has none."""
    text = (root / "deploy/docker/Dockerfile").read_text()
    (line,) = [each for each in text.splitlines() if "zipfile --list" in each]
    check = line.strip().removeprefix("&& {").removesuffix("\\").replace("/wheels/headrace-*.whl", "$WHEEL")
    for name, expected in (("_kernels.so", 0), ("other.so", 1)):
        wheel = root / "build/images/probe.whl"
        with zipfile.ZipFile(wheel, "w") as made:
            made.writestr(name, "")
        command = ["sh", "-c", check.replace("python ", "python3 ")]
        environment = {"WHEEL": str(wheel), "PATH": os.environ["PATH"]}
        assert subprocess.run(command, env=environment, check=False).returncode == expected


def test_containers_end_within_their_grace(platform: Platform) -> None:
    """The last test of a platform: afterwards nothing runs."""
    for pod in platform.pods:
        role = pod.labels["app.kubernetes.io/component"]
        grace = pod.spec["terminationGracePeriodSeconds"]
        began = time.monotonic()
        podman("stop", "--time", str(grace), pod.container, seconds=grace + 30)
        assert time.monotonic() - began < min(grace, 20), role
        state = inspect(pod.container)["State"]
        # NATS answers a stop with 1 where the signal comes to the first process.
        assert state["ExitCode"] in ((0, 1) if role == "nats" else (0,)), (role, logs(pod.container)[-2000:])
