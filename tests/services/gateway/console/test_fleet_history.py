"""The last hour of the fleet: what is counted, for whom, and that it never grows beyond its bounds."""

from types import SimpleNamespace
from typing import Any

import httpx2
import pytest

from headrace.access.key_file import KeyFile
from headrace.gateway.access.caller import ANYONE, Caller, tenant_of
from headrace.gateway.config import GatewaySettings
from headrace.gateway.console import fleet_history
from headrace.gateway.console.fleet_history import FIGURES, MAX_MODELS, MAX_POINTS, FleetHistory
from headrace.gateway.console.fleet_routes import FleetRoutes
from headrace.gateway.fleet.fleet import Fleet
from headrace.gateway.fleet.model_facts import ModelFacts
from headrace.gateway.fleet.platform_metrics import PlatformMetrics
from headrace.gateway.fleet.worker_facts import WorkerFacts
from headrace.gateway.request.ledger import Ledger
from headrace.gateway.routes import Routes
from headrace.gateway.timing.recent_requests import RecentRequests
from headrace.gateway.timing.request_record import RequestRecord
from headrace.gateway.timing.token_meter import OUTPUT_TOKENS

pytestmark = pytest.mark.anyio
WORKERS = [
    WorkerFacts("worker-0", ModelFacts("m"), running_count=2, waiting_count=1, block_count=8, used_block_count=2),
    WorkerFacts("worker-1", ModelFacts("m"), running_count=1, block_count=8, used_block_count=6),
    WorkerFacts("worker-2", ModelFacts("encoder")),
    WorkerFacts("worker-3", ModelFacts("gone"), running_count=9),
]


class Clock:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return 1_000_000 + self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(fleet_history, "time", made)
    return made


@pytest.fixture
def recent() -> RecentRequests:
    return RecentRequests(64)


@pytest.fixture
async def history(clock: Clock, recent: RecentRequests, monkeypatch: pytest.MonkeyPatch) -> FleetHistory:
    nobody: Any = None
    fleet = Fleet(GatewaySettings(), nobody)
    monkeypatch.setattr(Fleet, "workers", WORKERS)
    monkeypatch.setattr(fleet, "is_attached", lambda worker_id: worker_id != "worker-3")
    metrics = PlatformMetrics(fleet, Ledger(8))
    metrics.observe_queues({"m": 3}, "scheduler")
    return FleetHistory(fleet, metrics, recent)


def end(recent: RecentRequests, model: str, *first_token_seconds: float) -> None:
    for seconds in first_token_seconds:
        record = RequestRecord(model=model)
        record.first_token = record.stopwatch.started + seconds
        recent.add(record)


def caller(tmp_path: Any, **fields: Any) -> Caller:
    key = KeyFile(tmp_path / "keys.json").create("alice", "acme", **fields)[1]
    return Caller(tenant_of(key), key)


async def test_a_point_holds_rates_waits_and_load(history: FleetHistory, recent: RecentRequests, clock: Clock) -> None:
    end(recent, "m", *(number / 100 for number in range(1, 21)))
    recent.add(RequestRecord(outcome="model_not_found"))
    OUTPUT_TOKENS.labels(model="m").inc(50)
    clock.now += 10
    history.take()
    told = history.describe(ANYONE)
    assert (told["step_seconds"], told["times"]) == (10, [1_000_110.0])
    assert told["models"]["m"] == {
        "requests_per_second": [2.0],
        "tokens_per_second": [5.0],
        "ttft_p50_ms": [100.0],
        "ttft_p95_ms": [190.0],
        "running": [3],
        "queued": [4],
        "kv_usage": [0.5],
    }
    assert (told["models"]["encoder"]["kv_usage"], told["models"]["encoder"]["ttft_p50_ms"]) == ([None], [None])
    assert set(told["models"]) == {"m", "encoder"}


async def test_what_was_counted_once_is_not_counted_again(
    history: FleetHistory, recent: RecentRequests, clock: Clock
) -> None:
    end(recent, "late", 0.5)
    for _ in range(2):
        clock.now += 10
        history.take()
    late = history.describe(ANYONE)["models"]["late"]
    assert (late["requests_per_second"], late["ttft_p50_ms"]) == ([0.1, None], [500.0, None])


async def test_more_requests_than_are_remembered_are_counted_all(
    history: FleetHistory, recent: RecentRequests, clock: Clock
) -> None:
    end(recent, "m", *[0.25] * 640)
    clock.now += 10
    history.take()
    assert history.describe(ANYONE)["models"]["m"]["requests_per_second"] == [64.0]


async def test_it_is_bounded(history: FleetHistory, recent: RecentRequests, clock: Clock) -> None:
    for number in range(MAX_POINTS + 5):
        clock.now += 10
        if number % 40 == 0:
            end(recent, "z", *[0.1] * 9)
            for each in range(30):
                end(recent, f"model-{each}", 0.1)
        history.take()
        assert len(history.describe(ANYONE)["times"]) == min(number + 1, MAX_POINTS)
    told = history.describe(ANYONE)
    assert all(len(values) == MAX_POINTS for one in told["models"].values() for values in one.values())
    for at in range(MAX_POINTS):
        there = [name for name, one in told["models"].items() if one["running"][at] is not None]
        assert len(there) <= MAX_MODELS
    assert max(rate or 0 for rate in told["models"]["z"]["requests_per_second"]) == 0.9


async def test_a_key_sees_its_models(history: FleetHistory, clock: Clock, tmp_path: Any) -> None:
    clock.now += 10
    history.take()
    assert set(history.describe(caller(tmp_path, models=("encoder",)))["models"]) == {"encoder"}
    assert set(history.describe(caller(tmp_path, scopes=("admin",)))["models"]) == {"m", "encoder"}


async def test_it_is_served(history: FleetHistory, clock: Clock) -> None:
    clock.now += 10
    history.take()
    unused: Any = None
    requests: Any = SimpleNamespace(gateway="gateway-0")
    app = httpx2.ASGITransport(app=Routes(GatewaySettings(), [FleetRoutes(unused, history, requests)]))
    async with httpx2.AsyncClient(transport=app, base_url="http://localhost") as client:
        answer = await client.get("/headrace/fleet/history")
    assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store")
    assert answer.json()["gateway"] == "gateway-0"
    assert set(answer.json()["models"]["m"]) == set(FIGURES)
