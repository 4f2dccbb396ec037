"""The fleet as a caller sees it: everything, or the part that its key may see."""

from types import SimpleNamespace
from typing import Any

import pytest

from headrace.access.key_file import KeyFile
from headrace.gateway.access.caller import ANYONE, Caller, tenant_of
from headrace.gateway.config import GatewaySettings
from headrace.gateway.console.fleet_report import FleetReport
from headrace.gateway.fleet.fleet import Fleet
from headrace.gateway.fleet.model_facts import ModelFacts
from headrace.gateway.fleet.platform_metrics import PlatformMetrics
from headrace.gateway.fleet.worker_facts import WorkerFacts
from headrace.gateway.request.ledger import Ledger

pytestmark = pytest.mark.anyio
WORKERS = [
    WorkerFacts("worker-1", ModelFacts("n"), draining=True),
    WorkerFacts("worker-0", ModelFacts("m"), running_count=2, block_count=8, used_block_count=2),
    WorkerFacts("worker-2", ModelFacts("m")),
]


@pytest.fixture
def ledger() -> Ledger:
    return Ledger(8)


@pytest.fixture
async def report(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> FleetReport:
    nobody: Any = None
    fleet = Fleet(GatewaySettings(), nobody)
    monkeypatch.setattr(Fleet, "workers", WORKERS)
    monkeypatch.setattr(fleet, "is_attached", lambda worker_id: worker_id != "worker-2")
    metrics = PlatformMetrics(fleet, ledger)
    metrics.observe_queues({"m": 3, "n": 1}, "scheduler")
    health: Any = SimpleNamespace(report=lambda: {"status": "ready", "services": {"nats": "ready"}})
    return FleetReport(GatewaySettings(service_id="gateway-0"), fleet, health, metrics)


def caller(tmp_path: Any, **fields: Any) -> Caller:
    key = KeyFile(tmp_path / "keys.json").create("alice", "acme", **fields)[1]
    return Caller(tenant_of(key), key)


async def test_without_keys_everything_is_shown(report: FleetReport) -> None:
    described = report.describe(ANYONE)
    states = {worker["id"]: worker["state"] for worker in described["workers"]}
    assert states == {"worker-0": "ready", "worker-1": "draining", "worker-2": "not attached"}
    assert described["workers"][0]["kv_usage"] == 0.25
    assert described["workers"][0]["running"] == 2
    assert described["queues"] == [
        {"scheduler": "scheduler", "model": "m", "waiting": 3},
        {"scheduler": "scheduler", "model": "n", "waiting": 1},
    ]
    assert (described["gateway"], described["status"], described["services"]) == (
        *("gateway-0", "ready"),
        {"nats": "ready"},
    )
    assert described["caller"] == {"tenant": "public", "key": None, "scopes": [], "may_drain": True}


async def test_a_tenant_sees_its_models(report: FleetReport, tmp_path: Any) -> None:
    described = report.describe(caller(tmp_path, models=("n",)))
    everything = report.describe(caller(tmp_path, scopes=("admin",)))
    assert [worker["id"] for worker in described["workers"]] == ["worker-1"]
    assert [queue["model"] for queue in described["queues"]] == ["n"]
    assert described["caller"]["tenant"] == "acme"
    assert everything["caller"]["scopes"] == ["admin"]
    assert (described["caller"]["may_drain"], everything["caller"]["may_drain"]) == (False, True)


async def test_on_the_network_only_an_admin_drains(tmp_path: Any) -> None:
    nobody: Any = None
    health: Any = SimpleNamespace(report=lambda: {"status": "ready", "services": {}})
    fleet = Fleet(GatewaySettings(), nobody)
    settings = GatewaySettings(http_address="0.0.0.0:80")
    report = FleetReport(settings, fleet, health, PlatformMetrics(fleet, Ledger(8)))
    callers = (ANYONE, caller(tmp_path), caller(tmp_path, scopes=("admin",)))
    assert [report.describe(each)["caller"]["may_drain"] for each in callers] == [False, False, True]
