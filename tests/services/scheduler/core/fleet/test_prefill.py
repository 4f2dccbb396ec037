"""A prompt is computed apart where all who wait for it wait less then, and roles never keep a request waiting."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from headrace.kv.held_prefix import HeldPrefix
from headrace.scheduler.core import decisions, events
from headrace.scheduler.core.core import SchedulingCore
from headrace.scheduler.core.explanation import told
from headrace.scheduler.core.fleet.transfer_terms import TransferTerms
from headrace.scheduler.core.fleet.worker import WorkerReport
from headrace.scheduler.core.journal import Journal
from headrace.scheduler.core.policy import Policy
from headrace.scheduler.core.queueing.block_holder import BlockHolder
from headrace.scheduler.core.queueing.ticket import Ticket
from headrace.scheduler.core.queueing.waiter import Order
from headrace.scheduler.translation import to_member

MODEL = "m"
POLICY = Policy(transfer=TransferTerms(100))


def report(name: str, **facts: Any) -> WorkerReport:
    usual: dict[str, Any] = {
        "epoch": 1,
        "version": 1,
        "credit_count": 8,
        "address": f"{name}:1",
        "block_count": 1000,
        "block_size": 16,
        "prefill_rate": 1000.0,
        "step_seconds": 0.01,
        "block_layout": "x",
        "block_bytes": 1 << 20,
        "transfer_rate": 1e9,
        "computed_token_count": 100_000,
    }
    return WorkerReport(name, model=MODEL, **(usual | facts))


def place(
    *reports: WorkerReport, prompt: int = 2000, policy: Policy = POLICY, **facts: Any
) -> tuple[decisions.Dispatch, str]:
    """Returns the decision about a request and its explanation."""
    core, journal = SchedulingCore(policy), Journal()
    for each in reports:
        core.handle(events.WorkerReported(each, answers=True), 0.0)
    usual: dict[str, Any] = {"deadline": 600.0, "first_token_seconds": 60.0}
    ticket = Ticket("r", 1, MODEL, "t", 0.0, prompt_token_count=prompt, max_token_count=8, **(usual | facts))
    event = events.Submitted(ticket)
    decided = core.handle(event, 0.0)
    journal.record(event, 0.0, decided)
    (dispatch,) = (one for one in decided if isinstance(one, decisions.Dispatch))
    lines = [line.text for entry in journal for line in told(entry, "r", 0.0)]
    return dispatch, lines[-1]


BUSY = {"running_count": 6, "open_count": 6, "credit_count": 2}


def source_of(*reports: WorkerReport, **facts: Any) -> str:
    return place(*reports, **facts)[0].members[0].prefill.worker_id


def test_a_long_prompt_beside_running_decodes_is_computed_apart() -> None:
    dispatch, line = place(report("p", is_prefill=True), report("d", **BUSY))
    assert dispatch.worker_id == "d"
    assert (dispatch.members[0].prefill.worker_id, dispatch.members[0].prefill.address) == ("p", "p:1")
    assert "; p computes the prompt: 2.131 s by p, 2.060 s here, 14.060 s with those held up" in line
    member = to_member(dispatch.members[0], Order(b"", 0, ""), 0.0)
    assert (member.prefill_source.worker_id, member.prefill_source.address) == ("p", "p:1")


@pytest.mark.parametrize(
    ("prefill", "decode", "facts"),
    [
        ({}, {}, {}),
        ({}, BUSY, {"prompt": 99}),
        ({}, BUSY, {"held": {"d": HeldPrefix(120)}}),
        ({"waiting_token_count": 20_000}, BUSY, {}),
        ({}, BUSY | {"transfer_rate": 1e6}, {}),
        ({}, BUSY, {"first_token_seconds": 2.0}),
        ({"block_layout": "y"}, BUSY, {}),
        ({"block_layout": ""}, BUSY | {"block_layout": ""}, {}),
        ({"draining": True}, BUSY, {}),
        ({}, BUSY, {"excluded": frozenset({"p"})}),
    ],
    ids=[
        "nobody is held up",
        "a short prompt",
        "most of it is cached",
        "a long queue there",
        "a slow network",
        "it would be late",
        "another layout",
        "no exchange at all",
        "about to stop",
        "it failed before",
    ],
)
def test_otherwise_it_is_computed_where_the_request_runs(
    prefill: Mapping[str, Any], decode: Mapping[str, Any], facts: Mapping[str, Any]
) -> None:
    dispatch, line = place(report("p", is_prefill=True, **prefill), report("d", **decode), **facts)
    assert dispatch.worker_id == "d"
    assert dispatch.members[0].prefill.worker_id == ""
    assert "; it computes the prompt: " in line


LEFT = BlockHolder("gone", "gone:1")


def test_a_request_that_left_a_worker_fetches_its_blocks_from_there() -> None:
    dispatch, line = place(report("a"), left=LEFT)
    assert (dispatch.members[0].prefill.worker_id, dispatch.members[0].prefill.address) == ("gone", "gone:1")
    assert "0.131 s from gone, which it left" in line


@pytest.mark.parametrize(
    ("worker", "facts"),
    [
        ({"transfer_rate": 1e7}, {}),
        ({}, {"prompt": 99}),
        ({}, {"held": {"a": HeldPrefix(120)}}),
        ({"block_layout": ""}, {}),
        ({}, {"left": BlockHolder("a", "a:1")}),
    ],
    ids=["a slow network", "a short prompt", "most of it is here", "no exchange at all", "the worker that it left"],
)
def test_otherwise_a_request_that_left_a_worker_is_computed(worker: dict[str, Any], facts: dict[str, Any]) -> None:
    assert source_of(report("a", **worker), **({"left": LEFT} | facts)) == ""


def holding(**facts: Any) -> tuple[WorkerReport, WorkerReport]:
    """Returns a full worker, and an idle one."""
    return report("full", credit_count=0, open_count=8, running_count=8, **facts), report("idle")


def test_blocks_come_from_the_holder_of_the_longest_prefix_where_it_is_full() -> None:
    dispatch, line = place(*holding(), held={"full": HeldPrefix(100), "idle": HeldPrefix(10)})
    prefill = dispatch.members[0].prefill
    assert dispatch.worker_id == "idle"
    assert (prefill.worker_id, prefill.address, prefill.held_only) == (
        "full",
        "full:1",
        True,
    )
    assert "; full gives KV blocks: 0.094 s for 1440 tokens that full holds, 1.440 s here" in line
    assert to_member(dispatch.members[0], Order(b"", 0, ""), 0.0).prefill_source.held_only


@pytest.mark.parametrize(
    ("holder", "facts"),
    [
        ({}, {"held": {"full": HeldPrefix(6)}}),
        ({}, {"held": {"full": HeldPrefix(100), "idle": HeldPrefix(2, 95)}}),
        ({}, {"held": {"full": HeldPrefix(6, 94)}}),
        ({}, {"held": {"gone": HeldPrefix(100)}}),
        ({"block_layout": "y"}, {}),
        ({}, {"excluded": frozenset({"full"})}),
    ],
    ids=[
        "a short prefix",
        "most of it is here",
        "most is on a disk there",
        "a worker that has left",
        "another layout",
        "it failed before",
    ],
)
def test_otherwise_a_held_prefix_is_computed(holder: dict[str, Any], facts: dict[str, Any]) -> None:
    assert source_of(*holding(**holder), **({"held": {"full": HeldPrefix(100)}} | facts)) == ""


def test_a_prefix_that_comes_slower_than_it_is_computed_stays() -> None:
    full, idle = holding()
    assert source_of(full, replace(idle, transfer_rate=1e7), held={"full": HeldPrefix(100)}) == ""


def test_an_explanation_says_who_has_a_prompt_and_where() -> None:
    held = {"a": HeldPrefix(3), "b": HeldPrefix(1, 9)}
    ticket = Ticket("r", 1, MODEL, "t", 0.0, deadline=600.0, prompt_token_count=200, max_token_count=8, held=held)
    journal = Journal()
    journal.record(events.Submitted(ticket), 0.0, [])
    (line,) = [line.text for entry in journal for line in told(entry, "r", 0.0)]
    assert line.endswith("; prefix held by {'a': 3, 'b': 1}; on disks of {'b': 9}")


def test_a_model_without_prefill_workers_is_not_told_about_them() -> None:
    dispatch, line = place(report("a", **BUSY), report("b", **BUSY))
    assert dispatch.members[0].prefill.remark == ""
    assert line.endswith("sent to a")


def test_what_was_lent_counts_until_the_next_report() -> None:
    sources = [report(name, is_prefill=True) for name in ("p", "q")]
    core = SchedulingCore(POLICY)
    for each in (*sources, report("d", **BUSY)):
        core.handle(events.WorkerReported(each, answers=True), 0.0)
    chosen = []
    for name in ("r1", "r2"):
        ticket = Ticket(name, 1, MODEL, "t", 0.0, 600.0, 2000, 8, first_token_seconds=60.0)
        decided = core.handle(events.Submitted(ticket), 0.0)
        chosen += [one.members[0].prefill.worker_id for one in decided if isinstance(one, decisions.Dispatch)]
    assert chosen == ["p", "q"]


def test_a_new_prefill_worker_gets_a_chance_to_measure_its_rate() -> None:
    slow: dict[str, Any] = {"is_prefill": True, "prefill_rate": 10.0}
    assert source_of(report("p", **slow), report("d", **BUSY)) == ""
    assert source_of(report("p", **slow, computed_token_count=1), report("d", **BUSY)) == "p"


def test_a_prefill_worker_that_holds_the_prefix_is_preferred() -> None:
    sources = [report(name, is_prefill=True) for name in ("p", "q")]
    assert source_of(*sources, report("d", **BUSY), held={"q": HeldPrefix(100)}) == "q"


def test_without_decode_workers_prefill_workers_serve_whole_requests() -> None:
    dispatch, _ = place(report("p", is_prefill=True), report("d", draining=True))
    assert (dispatch.worker_id, dispatch.members[0].prefill.worker_id) == ("p", "")
    assert place(report("p", is_prefill=True))[0].worker_id == "p"


def test_a_decode_worker_without_the_adapter_is_none() -> None:
    adapters = frozenset({"a"})
    dispatch, _ = place(report("p", is_prefill=True, adapters=adapters), report("d"), adapter="a")
    assert dispatch.worker_id == "p"


def test_full_decode_workers_are_waited_for() -> None:
    core = SchedulingCore(POLICY)
    for each in (report("p", is_prefill=True), report("d", credit_count=0, open_count=8, running_count=8)):
        core.handle(events.WorkerReported(each, answers=True), 0.0)
    ticket = Ticket("r", 1, MODEL, "t", 0.0, 600.0, 2000, 8)
    assert not any(isinstance(one, decisions.Dispatch) for one in core.handle(events.Submitted(ticket), 0.0))
    again = report("d", version=2)
    (dispatch,) = (one for one in core.handle(events.WorkerReported(again), 0.1) if isinstance(one, decisions.Dispatch))
    assert dispatch.worker_id == "d"
