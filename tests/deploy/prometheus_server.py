"""A Prometheus of Debian that scrapes what a test runs."""

import contextlib
import math
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx2
from tests.deploy.scraped import write_config
from tests.harness.free_ports import free_ports
from tests.unpacked_packages import PROMETHEUS, unpacked

TIMEOUT = 10.0
READY_SECONDS = 30.0
POLL_SECONDS = 0.25
BINARY = shutil.which("prometheus") or shutil.which(unpacked(PROMETHEUS) / "prometheus")
"""Path of the program, or None."""


class PrometheusServer:
    """Asks a running Prometheus."""

    def __init__(self, url: str) -> None:
        self.url = url

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Returns the series of an instant query. Fails with Prometheus's own message if it cannot be run."""
        answer = httpx2.get(f"{self.url}/api/v1/query", params={"query": expression}, timeout=TIMEOUT).json()
        assert answer["status"] == "success", f"{answer.get('error')}: {expression}"
        return list(answer["data"]["result"])

    def values(self, expression: str) -> list[float]:
        """Returns the values of an instant query that a panel could show: NaN is none."""
        found = [float(series["value"][1]) for series in self.query(expression)]
        return [value for value in found if not math.isnan(value)]

    def alerts(self) -> dict[str, str]:
        """Returns the state, pending or firing, of each alert that is active now."""
        answer = httpx2.get(f"{self.url}/api/v1/alerts", timeout=TIMEOUT).json()
        return {alert["labels"]["alertname"]: alert["state"] for alert in answer["data"]["alerts"]}

    def wait_for(self, condition: Callable[[], bool], seconds: float, subject: str) -> None:
        """Waits until something is so. Fails after `seconds`, with the alerts that are active."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"no {subject} within {seconds:g} s; active alerts: {self.alerts()}"
            time.sleep(POLL_SECONDS)


@contextlib.contextmanager
def running_prometheus(folder: Path, targets: Mapping[str, Sequence[str]]) -> Iterator[PrometheusServer]:
    """Starts Prometheus on a free port, with the shipped rules and the targets of each job, and stops it on exit."""
    assert BINARY is not None
    (port,) = free_ports(1)
    command = [BINARY, f"--config.file={write_config(folder, targets)}", f"--storage.tsdb.path={folder / 'data'}"]
    command += [f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"]
    log_path = folder / "prometheus.log"
    with log_path.open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        server = PrometheusServer(f"http://127.0.0.1:{port}")
        _wait_until_ready(server, process, log_path)
        yield server
    finally:
        process.kill()
        process.wait(TIMEOUT)


def _wait_until_ready(server: PrometheusServer, process: "subprocess.Popen[bytes]", log_path: Path) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(httpx2.HTTPError):
            if httpx2.get(f"{server.url}/-/ready", timeout=TIMEOUT).status_code == httpx2.codes.OK:
                return
        time.sleep(POLL_SECONDS)
    raise AssertionError(f"prometheus did not start: {log_path.read_text()}")
