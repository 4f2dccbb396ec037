"""Report on the fleet: services, workers and queues as this gateway knows them, for people."""

from typing import Any

from headrace.domain.step_times import StepTimes
from headrace.gateway.access.caller import Caller
from headrace.gateway.config import GatewaySettings
from headrace.gateway.fleet.fleet import Fleet
from headrace.gateway.fleet.platform_health import PlatformHealth
from headrace.gateway.fleet.platform_metrics import PlatformMetrics
from headrace.gateway.fleet.worker_facts import WorkerFacts
from headrace.settings.web.web_names import host_name, is_loopback

Json = dict[str, Any]


class FleetReport:
    """Describes the platform to a caller: the models that its key may use; all for a key with the scope admin."""

    def __init__(
        self, settings: GatewaySettings, fleet: Fleet, health: PlatformHealth, metrics: PlatformMetrics
    ) -> None:
        self._gateway = settings.service_id
        self._is_private = is_loopback(host_name(settings.http_address))
        self._fleet = fleet
        self._health = health
        self._metrics = metrics

    def describe(self, caller: Caller) -> Json:
        """Returns the report as JSON has it. Memory is in bytes, KV usage a share from 0 to 1."""
        known = sorted(self._fleet.workers, key=lambda worker: worker.worker_id)
        workers = [worker for worker in known if caller.may_use(worker.model.model)]
        waiting = self._metrics.waiting_counts()
        health = self._health.report()
        return {
            "gateway": self._gateway,
            "status": health["status"],
            "services": health["services"],
            "workers": [self._worker(worker, caller) for worker in workers],
            "queues": [
                {"scheduler": scheduler, "model": model, "waiting": count}
                for scheduler, counts in sorted(waiting.items())
                for model, count in sorted(counts.items())
                if caller.may_use(model)
            ],
            "caller": {
                "tenant": caller.tenant.name,
                "key": caller.key.id if caller.key else None,
                "scopes": list(caller.key.scopes) if caller.key else [],
                "may_drain": caller.may_end_workers(is_private=self._is_private),
            },
        }

    def _worker(self, worker: WorkerFacts, caller: Caller) -> Json:
        is_attached = self._fleet.is_attached(worker.worker_id)
        return {
            "id": worker.worker_id,
            "model": worker.model.model,
            "started": worker.epoch / 1e9,
            "address": worker.address if caller.sees_all_usage else None,
            "state": "draining" if worker.draining else "ready" if is_attached else "not attached",
            "residence": worker.residence,
            "pinned": worker.is_pinned,
            "predicted_wait_seconds": round(worker.predicted_wait_seconds, 3),
            "loads": worker.load_count,
            "wakes": worker.wake_count,
            "sleeps": worker.sleep_count,
            "drops": worker.drop_count,
            "out_of_memory": worker.memory_shortage_count,
            "running": worker.running_count,
            "waiting": worker.waiting_count,
            "sessions": worker.open_request_count,
            "credit": worker.credit_count,
            "kv_blocks": worker.block_count,
            "kv_blocks_used": worker.used_block_count,
            "kv_usage": round(worker.kv_usage, 4),
            "weight_bytes": worker.weight_byte_count,
            "kv_bytes": worker.kv_byte_count,
            "resident_bytes": worker.resident_byte_count,
            "looked_up_tokens": worker.queried_token_count,
            "cached_tokens": worker.cached_token_count,
            "draft_tokens": worker.draft_token_count,
            "accepted_tokens": worker.accepted_token_count,
            "preemptions": worker.preemption_count,
            "busy_seconds": round(worker.busy_seconds, 3),
            "moved_bytes": int(worker.moved_byte_count),
            "operations": int(worker.operation_count),
            "peak_bytes_per_second": worker.memory_bandwidth,
            "peak_operations_per_second": worker.arithmetic_rate,
            "hourly_price": worker.hourly_price,
            "kv_block_tokens": worker.model.block_size,
            "step_tokens": worker.step_token_limit,
            "max_step_seconds": worker.max_step_seconds,
            "step_times": None if worker.step_times is None else _seconds(worker.step_times),
        }


def _seconds(times: StepTimes) -> Json:
    """Returns the seconds of a step, and what each unit of its work adds."""
    return {
        "base": times.base_seconds,
        "prompt_token": times.prompt_token_seconds,
        "sequence": times.sequence_seconds,
        "context_token": times.context_token_seconds,
    }
