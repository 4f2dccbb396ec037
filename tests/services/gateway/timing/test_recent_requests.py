"""Memory of the last requests is bounded, and a tenant sees its own only."""

from headrace.gateway.timing.recent_requests import RecentRequests
from headrace.gateway.timing.request_record import RequestRecord


def filled(count: int, most: int) -> RecentRequests:
    recent = RecentRequests(most)
    for number in range(count):
        tenant, model, outcome = "ab"[number % 2], "mn"[number // 2 % 2], "finished" if number % 3 else "overloaded"
        made = RequestRecord(client_id=f"c{number}", request_id=f"c{number}.x", tenant=tenant, model=model)
        made.outcome = outcome
        recent.add(made)
    return recent


def test_the_oldest_are_forgotten() -> None:
    recent = filled(10, 4)
    assert [record.client_id for record in recent.newest("a", 9)] == ["c8", "c6"]
    assert recent.find("a", "c4") is None


def test_they_are_chosen_by_model_and_outcome() -> None:
    recent = filled(12, 12)
    assert [record.client_id for record in recent.newest("a", 9, model="n")] == ["c10", "c6", "c2"]
    assert [record.client_id for record in recent.newest("a", 9, outcome="overloaded")] == ["c6", "c0"]
    assert [record.client_id for record in recent.newest("a", 1)] == ["c10"]


def test_a_tenant_finds_its_own_by_either_id() -> None:
    recent = filled(12, 12)
    for name in ("c10", "c10.x", "last"):
        found = recent.find("a", name)
        assert found is not None
        assert found.client_id == "c10"
        assert name == "last" or recent.find("b", name) is None
    assert recent.find("nobody", "last") is None


def test_those_added_since_are_known_as_far_as_they_are_kept() -> None:
    recent = filled(10, 4)
    assert recent.added_count == 10
    assert [record.client_id for record in recent.since(8)] == ["c9", "c8"]
    assert [record.client_id for record in recent.since(0)] == ["c9", "c8", "c7", "c6"]
    assert recent.since(10) == []
