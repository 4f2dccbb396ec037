"""Names of subjects: `headrace.v1.<noun>.<id>.<past-tense verb>`."""

PREFIX = "headrace.v1"
WORKER_DEREGISTERED = "headrace.v1.worker.*.deregistered"
WORKER_HEARTBEAT = "headrace.v1.worker.*.heartbeat_sent"
BLOCKS_CHANGED = "headrace.v1.worker.*.blocks_changed"
REQUESTS_ASKED = "headrace.v1.gateway.*.requests_asked"
SCHEDULER_HEARTBEAT = "headrace.v1.scheduler.*.heartbeat_sent"


def registered(kind: str) -> str:
    """Returns the pattern of the news that a service of a kind is ready."""
    return f"{PREFIX}.{kind}.*.registered"


def deregistered(kind: str) -> str:
    """Returns the pattern of the news that a service of a kind stops. The kind is part of it, so that NATS can forbid
    a service to say it of others."""
    return f"{PREFIX}.{kind}.*.deregistered"


def of(pattern: str, identifier: str) -> str:
    """Returns the subject of one publisher."""
    return pattern.replace("*", identifier)


def pattern_of(subject: str) -> str:
    """Returns the pattern of a subject: the same for all publishers, of which there may be any number over time."""
    words = subject.split(".")
    return ".".join((*words[:3], "*", words[-1])) if len(words) > 4 else subject
