"""A record as JSON: the path and the message of a failure, short, and nothing of what was asked or answered."""

import pytest

from headrace.errors import InvalidRequest, StageFailed
from headrace.gateway.request.ledger import Ledger, note_refusal
from headrace.gateway.timing.latency_budgets import CLASSES, LatencyBudgets
from headrace.gateway.timing.request_record import MAX_PATH_LENGTH, RequestRecord
from headrace.gateway.timing.stopwatch import Stopwatch
from headrace.gateway.timing.timings_format import described


def test_a_refusal_tells_its_path_and_its_message() -> None:
    record = RequestRecord()
    record.note_path("/v1/nothing")
    note_refusal(InvalidRequest("n must be at least 1", param="n"), record)
    told = described(record)
    assert (told["path"], told["outcome"], told["error"]) == ("/v1/nothing", "invalid_value", "n must be at least 1")


def test_a_failure_tells_its_stage() -> None:
    record = RequestRecord(operation="chat")
    with pytest.raises(StageFailed), Ledger(1).open_request("a", "m", record):
        raise StageFailed("the worker was lost", stage="decode")
    assert described(record)["error"] == "the worker was lost (stage: decode)"


def test_a_foreign_exception_tells_nothing_of_itself() -> None:
    """Its text may hold anything, such as what another tenant sent."""
    record, refused = RequestRecord(), RequestRecord()
    with pytest.raises(ValueError, match="secret"), Ledger(1).open_request("a", "m", record):
        raise ValueError("secret of another")
    note_refusal(KeyError("secret"), refused)
    for each in (record, refused):
        assert each.error
        assert "secret" not in str(described(each))


def test_a_request_tells_its_targets_and_which_it_met() -> None:
    record = RequestRecord(Stopwatch(100.0), operation="chat", request_class="interactive")
    assert described(record)["slo"] is None
    record.outcome, record.output_token_count = "finished", 3
    record.first_token, record.last_token = 100.4, 101.0
    each = dict.fromkeys(CLASSES, 1.0)
    LatencyBudgets(each, each | {"interactive": 0.25}).judge(record)
    assert described(record)["slo"] == {
        "ttft_target_ms": 1000.0,
        "tpot_target_ms": 250.0,
        "ttft_met": True,
        "tpot_met": False,
        "met": False,
    }


def test_what_is_long_is_cut() -> None:
    record = RequestRecord()
    record.note_path("/" + "x" * 10_000)
    note_refusal(InvalidRequest("y" * 10_000), record)
    told = described(record)
    assert len(told["path"]) == MAX_PATH_LENGTH
    assert len(told["error"]) < 1000


def test_what_finished_has_no_message() -> None:
    record = RequestRecord()
    with Ledger(1).open_request("a", "m", record):
        pass
    assert described(record)["error"] is None


def test_cached_tokens_are_counted_at_one_place_each() -> None:
    """Blocks that were fetched may be lost again before the request begins."""
    record = RequestRecord(disk_token_count=16, worker_token_count=32, store_token_count=64)
    for cached, places in {
        200: {"memory": 88, "disk": 16, "worker": 32, "store": 64},
        60: {"memory": 0, "disk": 16, "worker": 32, "store": 12},
        20: {"memory": 0, "disk": 16, "worker": 4, "store": 0},
    }.items():
        record.cached_token_count = cached
        assert described(record)["cached_tokens_from"] == places
