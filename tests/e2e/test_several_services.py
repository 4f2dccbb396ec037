"""Several gateways, schedulers and tokenizers at once, some of which go away."""

import signal
import time
from collections.abc import Iterator
from typing import Any

import httpx2
import psutil
import pytest
from tests.harness.free_ports import free_ports
from tests.harness.running_platform import RunningPlatform, running_platform

COUNTS = ("--gateways", "2", "--schedulers", "2", "--tokenizers", "2", "--caches", "2", "--replicas", "2")
TIMEOUT = 60.0


def complete(platform: RunningPlatform) -> str:
    """The id of an answer on a new connection: it may come from any gateway."""
    body = {"model": "headrace-demo", "prompt": "Hello", "max_tokens": 4, "temperature": 0}
    response = httpx2.post(f"{platform.http}/v1/completions", json=body, timeout=TIMEOUT)
    assert response.status_code == 200, response.text
    return str(response.json()["choices"][0]["text"])


def listed(platform: RunningPlatform) -> dict[str, Any]:
    """The newest requests, as some gateway tells them."""
    answer: dict[str, Any] = httpx2.get(f"{platform.http}/headrace/requests?limit=50", timeout=TIMEOUT).json()
    return answer


def told(lists: list[dict[str, Any]]) -> set[tuple[tuple[str, ...], int]]:
    """The different lists: which gateways they name, and the number of their requests."""
    return {(tuple(each["gateways"]), len(each["data"])) for each in lists}


@pytest.fixture(scope="module")
def ports() -> list[int]:
    """Ports for metrics: of two tokenizers, and of two workers."""
    return free_ports(4)


@pytest.fixture(scope="module")
def platform(ports: list[int], tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPlatform]:
    """Two of each kind. The last test kills some."""
    folder = tmp_path_factory.mktemp("several")
    config = folder / "headrace.toml"
    config.write_text(f"[tokenizer]\nmetrics_port = {ports[0]}\n[worker]\nmetrics_port = {ports[2]}\n")
    with running_platform(folder / "state", ["--engine", "sim", "--config", str(config)], counts=COUNTS) as running:
        yield running


def test_each_of_a_kind_shows_its_metrics_on_a_port_of_its_own(platform: RunningPlatform, ports: list[int]) -> None:
    """One configuration names one port, from which they count. No service shows metrics of another."""
    for name, port in zip(("tokenizer", "tokenizer-1", "worker-0", "worker-1"), ports, strict=True):
        connections = psutil.Process(platform.service(name)["pid"]).net_connections()
        assert port in {each.laddr.port for each in connections if each.status == psutil.CONN_LISTEN}, name
        shown = httpx2.get(f"http://127.0.0.1:{port}/metrics", timeout=TIMEOUT).text
        assert "process_start_time_seconds" in shown
        assert ("headrace_worker_kept_blocks" in shown) == name.startswith("worker")
    assert "headrace_worker_kept_blocks" not in httpx2.get(f"{platform.http}/metrics", timeout=TIMEOUT).text


def test_every_gateway_tells_of_the_requests_of_all(platform: RunningPlatform) -> None:
    """A connection reaches any gateway; whichever it is, the list is the same."""
    count = 0
    while len({row["gateway"] for row in listed(platform)["data"]}) < 2:
        complete(platform)
        count += 1
        assert count < 50, "one gateway gets all"
    wanted = (("gateway", "gateway-1"), count)
    deadline = time.monotonic() + TIMEOUT
    # One that answers late, as on a busy machine, is left out of a list.
    while told(lists := [listed(platform) for _ in range(8)]) != {wanted}:
        assert time.monotonic() < deadline, f"{told(lists)}, not {wanted}"
    assert {row["gateway"] for row in lists[0]["data"]} == {"gateway", "gateway-1"}
    name = lists[0]["data"][-1]["id"]
    for _ in range(8):
        found = httpx2.get(f"{platform.http}/headrace/requests/{name}", timeout=TIMEOUT).json()
        assert found["id"] == name


def test_all_serve_and_one_of_a_kind_may_go(platform: RunningPlatform) -> None:
    names = [service["name"] for service in platform.describe()["services"]]
    assert len(names) == len(set(names)) == 11
    assert {
        "gateway",
        "gateway-1",
        "scheduler",
        "scheduler-1",
        "tokenizer",
        "tokenizer-1",
        "cache",
        "cache-1",
    } < set(names)
    texts = {complete(platform) for _ in range(8)}
    assert len(texts) == 1
    for name, number in (("tokenizer", signal.SIGSTOP), ("tokenizer-1", signal.SIGKILL)):
        platform.kill(name, number)
        assert {complete(platform) for _ in range(4)} == texts
        platform.wait_until_restarted(name, 1)
    platform.kill("cache-1")
    assert {complete(platform) for _ in range(4)} == texts
    platform.kill("gateway-1", signal.SIGSTOP)
    platform.wait_until_restarted("gateway-1", 1)
    assert {complete(platform) for _ in range(8)} == texts
