"""Rules which role may call which method of an internal service."""

from collections.abc import Mapping
from typing import Any

import grpc

from headrace.errors import Forbidden
from headrace.security.certificates.role import OPERATOR, role_of

PEER_NAMES = "peer_dns"
"""Property of a call that holds the DNS names in its caller's certificate."""

SCOPE = "/headrace."
"""Prefix of the methods that the rules are about. Health and reflection answer every role."""
RULES: Mapping[str, frozenset[str]] = {
    f"/headrace.v1.{method}": frozenset(roles)
    for method, roles in {
        "TokenizerService/Encode": {"gateway"},
        "TokenizerService/Decode": {"gateway"},
        "TokenizerService/GetVocabulary": {"gateway"},
        "SchedulerService/Schedule": {"gateway"},
        "SchedulerService/GetSchedule": {OPERATOR},
        "SchedulerService/Explain": {OPERATOR},
        "SchedulerService/GetDemand": {OPERATOR},
        "CacheService/LookupResponse": {"gateway"},
        "CacheService/StoreResponse": {"gateway"},
        "CacheService/LookupPrefix": {"scheduler"},
        "CacheService/KeepStreams": {"gateway"},
        "CacheService/FindStream": {"gateway"},
        "CacheService/LookupBlocks": {"worker"},
        "CacheService/StoreBlocks": {"worker"},
        "CacheService/FetchBlocks": {"worker"},
        # A gateway dispatches itself while no scheduler answers.
        "WorkerService/Dispatch": {"scheduler", "gateway"},
        "WorkerService/Attach": {"gateway"},
        "WorkerService/Watch": {"scheduler"},
        "WorkerService/GetWorkerStatus": {"gateway", "scheduler", OPERATOR},
        "WorkerService/ListBlocks": {"cache"},
        "WorkerService/Prefill": {"worker"},
        "WorkerService/Drain": {"gateway", OPERATOR},
        "WorkerService/Pin": {OPERATOR},
    }.items()
}


def may_call(role: str | None, method: str) -> bool:
    """Whether a role may call a method. No role may call one without a rule."""
    return not method.startswith(SCOPE) or role in RULES.get(method, ())


def check_role(context: grpc.aio.ServicerContext[Any, Any], method: str) -> None:
    """Raises Forbidden for a call that the role in its caller's certificate may not make."""
    names = context.auth_context().get(PEER_NAMES, ())
    role = role_of(name.decode(errors="replace") for name in names)
    if not may_call(role, method):
        raise Forbidden(f"the role {role} may not call {method}: docs/guide/deploy.md lists who calls whom")
