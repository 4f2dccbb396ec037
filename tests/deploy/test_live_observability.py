"""Dashboards and alerts against a real platform under a real Prometheus: every panel shows something, no alert fires
under healthy traffic, and a fault fires one."""

import json
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.deploy.everyday_traffic import EMBEDDING_MODEL, EverydayTraffic
from tests.deploy.prometheus_server import BINARY, POLL_SECONDS, PrometheusServer, running_prometheus
from tests.deploy.scraped import FOLDER, NEEDS, shown
from tests.e2e.command_line import headrace_here
from tests.harness.free_ports import free_ports
from tests.harness.running_platform import RunningPlatform, running_platform
from tests.unpacked_packages import PROMETHEUS, why_not

BEHIND = ("tokenizer", "scheduler", "cache", "worker")
"""Services that serve their metrics on a separate port."""
TRAFFIC_SECONDS = 15.0
START_SECONDS, FAULT_SECONDS = 20.0, 30.0
TARGETS = """[gateway]
ttft_targets = "realtime=5,interactive=5,default=10,batch=300"
tpot_targets = "realtime=1,interactive=1,default=2,batch=2"
"""
"""Promises that a machine with busy neighbors keeps: the traffic is to be healthy wherever the test runs."""
pytestmark = [
    pytest.mark.process,
    pytest.mark.slow,
    pytest.mark.skipif(
        BINARY is None,
        reason=f"prometheus is missing ({why_not(PROMETHEUS)}); to run it: make test where there is apt-get, "
        "or put prometheus on PATH",
    ),
]


@dataclass
class Watched:
    """Platforms under a Prometheus that has seen healthy traffic."""

    prometheus: PrometheusServer
    embeddings: RunningPlatform
    traffic: EverydayTraffic
    seen_alerts: dict[str, str]
    """Alerts that were pending or firing at any time of the traffic."""
    silent: list[str]
    """Queries of panels that had nothing to show at its end."""


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory, minilm: Path) -> Iterator[Watched]:
    """Two platforms, because the workers of one would share a port for their metrics: one makes text and asks for keys,
    the other makes embeddings."""
    folder = tmp_path_factory.mktemp("prometheus")
    ports = {name: free_ports(len(BEHIND)) for name in ("text", "embeddings")}
    configs = {name: write_settings(folder / f"{name}.toml", found) for name, found in ports.items()}
    text_state, embedding_state = tmp_path_factory.mktemp("text"), tmp_path_factory.mktemp("embeddings")
    key = make_key(text_state)
    with (
        running_platform(text_state, ["--config", str(configs["text"])]) as text,
        running_platform(
            embedding_state,
            ["--config", str(configs["embeddings"]), f"{EMBEDDING_MODEL}={minilm}"],
        ) as embeddings,
    ):
        targets = {kind: [f"127.0.0.1:{found[n]}" for found in ports.values()] for n, kind in enumerate(BEHIND)}
        targets["gateway"] = [platform.http.removeprefix("http://") for platform in (text, embeddings)]
        traffic = EverydayTraffic(text.http, key, embeddings.http)
        with running_prometheus(folder, targets) as prometheus:
            yield Watched(prometheus, embeddings, traffic, *observed(prometheus, traffic))


def write_settings(path: Path, ports: list[int]) -> Path:
    """Writes a configuration in which each service behind the gateway shows its metrics. The worker, the last
    of them, has a price."""
    text = "".join(f"[{kind}]\nmetrics_port = {port}\n" for kind, port in zip(BEHIND, ports, strict=True))
    path.write_text(f"{text}hourly_price = 0.7\n{TARGETS}")
    return path


def make_key(state: Path) -> str:
    arguments = ["keys", "create", "grafana", "--highest-class", "realtime", "--tenant", "acme", "--json"]
    done = headrace_here(*arguments, "--state-dir", str(state))
    assert done.returncode == 0, done.stderr
    return str(json.loads(done.stdout)["key"])


def observed(prometheus: PrometheusServer, traffic: EverydayTraffic) -> tuple[dict[str, str], list[str]]:
    """Sends traffic for a while, once all targets have been scraped. Returns the alerts that were active meanwhile, and
    the queries that had nothing to show at its end."""
    prometheus.wait_for(
        lambda: set(prometheus.values("min_over_time(up[3s])")) == {1.0}, START_SECONDS, "first scrapes"
    )
    prometheus.wait_for(lambda: prometheus.alerts() == {}, START_SECONDS, "quiet")
    seen: dict[str, str] = {}
    with traffic.running():
        end = time.monotonic() + TRAFFIC_SECONDS
        while time.monotonic() < end:
            seen |= prometheus.alerts()
            time.sleep(POLL_SECONDS)
        silent = [place for place, expression in expected_queries() if not prometheus.values(shown(expression))]
    return seen, silent


def expected_queries() -> Iterator[tuple[str, str]]:
    """Places and texts of all queries, without those of panels that need an exporter which is not there."""
    for path in sorted(FOLDER.glob("grafana/dashboards/*.json")):
        for panel in json.loads(path.read_text())["panels"]:
            if not NEEDS.search(panel.get("description", "")):
                for target in panel.get("targets", []):
                    yield f"{path.name}: {panel['title']}: {target['expr']}", target["expr"]


def test_traffic_was_of_every_kind(watched: Watched) -> None:
    assert len(watched.traffic.counts) == 8
    assert all(count >= 5 for count in watched.traffic.counts.values()), watched.traffic.counts


def test_every_panel_shows_something(watched: Watched) -> None:
    assert len(list(expected_queries())) > 90
    assert watched.silent == []


def test_healthy_traffic_wakes_nobody(watched: Watched) -> None:
    """Checks that no alert is even pending: it would be one scrape away from firing."""
    assert watched.seen_alerts == {}
    assert watched.prometheus.query("ALERTS") == []


def test_every_service_is_scraped(watched: Watched) -> None:
    assert watched.prometheus.values("up") == [1.0] * (2 * (len(BEHIND) + 1))


def test_a_lost_model_wakes_somebody(watched: Watched) -> None:
    """Kills the worker while the supervisor, which would restart it, is frozen."""
    supervisor = watched.embeddings.process.pid
    os.kill(supervisor, signal.SIGSTOP)
    try:
        watched.embeddings.kill("worker-0")
        watched.prometheus.wait_for(
            lambda: watched.prometheus.alerts().get("ModelWithoutWorker") == "firing", FAULT_SECONDS, "alert"
        )
        watched.prometheus.wait_for(
            lambda: watched.prometheus.alerts().get("ServiceDown") == "firing", FAULT_SECONDS, "alert"
        )
        assert "NoWorkers" not in watched.prometheus.alerts()
    finally:
        os.kill(supervisor, signal.SIGCONT)
    watched.embeddings.wait_until_restarted("worker-0", 1)
    watched.prometheus.wait_for(lambda: watched.prometheus.alerts() == {}, FAULT_SECONDS, "end of the alerts")
