"""Reports of workers are on /metrics, one line for each."""

from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from headrace.gateway.config import GatewaySettings
from headrace.gateway.fleet.fleet import Fleet
from headrace.gateway.fleet.model_facts import ModelFacts
from headrace.gateway.fleet.platform_metrics import PlatformMetrics
from headrace.gateway.fleet.worker_facts import WorkerFacts
from headrace.gateway.request.ledger import Ledger

pytestmark = pytest.mark.anyio


def worker(worker_id: str, scale: int) -> WorkerFacts:
    return WorkerFacts(
        worker_id=worker_id,
        model=ModelFacts("m"),
        weight_byte_count=100 * scale,
        kv_byte_count=200 * scale,
        resident_byte_count=300 * scale,
        draft_token_count=40 * scale,
        accepted_token_count=30 * scale,
    )


async def test_memory_and_speculation_of_each_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    nobody: Any = None
    fleet = Fleet(GatewaySettings(), nobody)
    monkeypatch.setattr(Fleet, "workers", [worker("worker-0", 1), worker("worker-1", 2), worker("lost", 3)])
    monkeypatch.setattr(fleet, "is_attached", lambda worker_id: worker_id != "lost")
    registry = CollectorRegistry(auto_describe=False)
    registry.register(PlatformMetrics(fleet, Ledger(1)))
    lines = generate_latest(registry).decode().splitlines()
    names = ("memory_weights_bytes", "memory_kv_bytes", "memory_resident_bytes", "draft_tokens_total")
    for name, value in zip((*names, "accepted_tokens_total"), (100, 200, 300, 40, 30), strict=True):
        found = [line for line in lines if line.startswith(f"headrace_{name}{{")]
        assert found == [
            f'headrace_{name}{{model="m",worker="worker-0"}} {value:.1f}',
            f'headrace_{name}{{model="m",worker="worker-1"}} {2 * value:.1f}',
        ]


async def test_queues_of_two_schedulers_stand_side_by_side() -> None:
    nobody: Any = None
    metrics = PlatformMetrics(Fleet(GatewaySettings(), nobody), Ledger(1))
    registry = CollectorRegistry(auto_describe=False)
    registry.register(metrics)
    metrics.observe_queues({"m": 3}, "scheduler")
    metrics.observe_queues({"n": 5}, "scheduler-1")
    metrics.observe_queues({"m": 4}, "scheduler")
    lines = generate_latest(registry).decode().splitlines()
    assert {line for line in lines if line.startswith("headrace_requests_waiting{")} == {
        'headrace_requests_waiting{holder="scheduler-1",model="n"} 5.0',
        'headrace_requests_waiting{holder="scheduler",model="m"} 4.0',
    }


async def test_every_figure_of_the_fleet_names_its_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two gateways show the same worker: without its name their sum would count it twice."""
    nobody: Any = None
    fleet = Fleet(GatewaySettings(), nobody)
    monkeypatch.setattr(Fleet, "workers", [worker("worker-0", 1)])
    monkeypatch.setattr(fleet, "is_attached", lambda _: True)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(PlatformMetrics(fleet, Ledger(1)))
    lines = generate_latest(registry).decode().splitlines()
    own = ("headrace_requests_open", "headrace_event_loop_tasks")
    figures = [line for line in lines if not line.startswith(("#", *own))]
    assert len(figures) > 15
    assert [line for line in figures if 'worker="' not in line and 'holder="' not in line] == []
