"""The only place that spells subjects: `headrace.v1.<noun>.<id>.<past-tense fact>`."""

SERVICE_REGISTERED = "headrace.v1.service.*.registered"
SERVICE_DEREGISTERED = "headrace.v1.service.*.deregistered"
WORKER_HEARTBEAT = "headrace.v1.worker.*.heartbeat_sent"
BLOCKS_CHANGED = "headrace.v1.worker.*.blocks_changed"
SCHEDULER_HEARTBEAT = "headrace.v1.scheduler.*.heartbeat_sent"


def of(pattern: str, identifier: str) -> str:
    """The subject of one publisher."""
    return pattern.replace("*", identifier)
