"""Logs are kept per tenant, and forgotten when they take too much room."""

from headrace.gateway.access.tenant import PUBLIC, Tenant
from headrace.gateway.api.openai.responses.background.event_logs import EventLogs


def test_a_tenant_finds_its_own_alone() -> None:
    logs = EventLogs()
    log = logs.open(PUBLIC, "r")
    assert logs.find(PUBLIC, "r") is log
    assert logs.find(Tenant("other"), "r") is None


def test_the_oldest_that_are_closed_make_room() -> None:
    logs = EventLogs(max_bytes=10)
    first, second, third = (logs.open(PUBLIC, name) for name in ("a", "b", "c"))
    for log in (first, second, third):
        log.append(b"1234567890")
    second.close()
    third.close()
    logs.open(PUBLIC, "d")
    assert [name for name in "abcd" if logs.find(PUBLIC, name)] == ["a", "d"]


def test_a_deleted_response_leaves_nothing() -> None:
    logs = EventLogs()
    logs.open(PUBLIC, "r")
    logs.forget(PUBLIC, "r")
    assert logs.find(PUBLIC, "r") is None
