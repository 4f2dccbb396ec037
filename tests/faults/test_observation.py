"""The observer sees what it is there for: a suite that counts nothing would hold any promise."""

import math
import random
from collections import Counter
from dataclasses import replace

import pytest
from tests.faults.asking import Answer, Choice
from tests.faults.comparison import Difference, compare
from tests.faults.fault import Fault, Promise, Scene
from tests.faults.observation import Observation, observe, recovery
from tests.faults.questions import PROBES, stream
from tests.faults.report import Verdict, to_markdown, total_cells
from tests.faults.shapes import PLAYED

QUESTION = stream(random.Random(1))


def answered(*token_ids: int, outcome: str = "ok", times: tuple[float, ...] = ()) -> Answer:
    choices = {0: Choice(list(token_ids), "", "length" if outcome == "ok" else "")}
    return Answer(QUESTION, 0.0, 1.0, outcome, choices=choices, event_times=list(times))


def probed(start: float, seconds: float = 0.02, outcome: str = "ok") -> Answer:
    return Answer(PROBES[0], start, start + seconds, outcome)


@pytest.mark.parametrize(
    ("found", "difference"),
    [
        (answered(1, 2, 3, 4), Difference()),
        (answered(1, 2, 4), Difference(lost=1, equal=False)),
        (answered(1, 2, 2, 3, 4), Difference(doubled=1, equal=False)),
        (answered(1, 2, 9, 4), Difference(lost=1, doubled=1, equal=False)),
        (answered(1, 2, outcome="503 unavailable"), Difference()),
        (answered(1, 3, outcome="503 unavailable"), Difference(lost=1, doubled=1, equal=False)),
        (answered(), Difference(lost=4, equal=False)),
    ],
)
def test_lost_doubled_and_other_tokens_are_counted(found: Answer, difference: Difference) -> None:
    assert compare(found, answered(1, 2, 3, 4)) == difference


def test_another_finish_reason_or_logprob_is_another_answer() -> None:
    for change in ({"finish_reason": "stop"}, {"logprobs": [-1.0]}, {"text": "x"}):
        found = answered(1, 2)
        for name, value in change.items():
            setattr(found.choices[0], name, value)
        assert compare(found, answered(1, 2)) == Difference(equal=False)


def test_requests_are_counted_by_how_they_end() -> None:
    answers = [
        answered(1, 2),
        answered(1, 2, outcome="hung"),
        answered(outcome="503 x"),
        answered(outcome="connection"),
    ]
    seen = observe("f", answers, [], {QUESTION.key: answered(1, 2)}, [])
    assert (seen.requests, seen.hung, seen.failed, seen.equality) == (4, 1, 2, 1.0)
    assert seen.failures == {"503 x": 1, "connection": 1}


def test_a_stall_is_the_longest_silence_of_a_stream_that_ran_when_the_fault_came() -> None:
    through = answered(1, 2, times=(0.0, 1.0, 4.0, 4.5))
    before = answered(1, 2, times=(0.0, 1.0))
    after = answered(1, 2, times=(3.0, 9.0))
    failed = replace(answered(1, outcome="504", times=(0.0, 1.0)), end=8.0)
    seen = observe("f", [through, before, after, failed], [], {QUESTION.key: answered(1, 2)}, [2.0])
    assert seen.stalls == [3.0, 7.0]


def test_recovery_counts_to_the_first_of_the_new_requests_that_all_work() -> None:
    quiet = [probed(index / 10) for index in range(10)]
    assert recovery([*quiet, probed(1.1), probed(2.0)], [1.0]) == 0.0
    assert recovery([*quiet, probed(1.1), probed(1.5, outcome="503"), probed(2.0, 0.5)], [1.0]) == 1.5
    assert recovery([*quiet, probed(1.1, 4.0), probed(1.5, 0.1)], [1.0]) == pytest.approx(0.6)
    assert recovery([*quiet, probed(1.1), probed(1.5, outcome="503")], [1.0]) == math.inf


def test_every_phase_of_a_fault_has_a_recovery() -> None:
    probes = [probed(1.1, outcome="503"), probed(1.2), probed(6.1, outcome="503"), probed(8.0)]
    assert recovery(probes, [1.0, 6.0]) == pytest.approx(2.02)
    frozen = [probed(0.99, 5.1), probed(1.1, 5.0), probed(6.1), probed(6.2)]
    assert recovery(frozen, [1.0, 6.0]) == pytest.approx(5.0)


async def _nothing(_scene: Scene) -> None:
    return


def test_each_promise_can_be_broken() -> None:
    fault = Fault("f", PLAYED, _nothing, Promise(stall=1.0))
    worst = Observation(
        "f", 9, Counter({"503": 1}), 1, 2, 3, 4, [2.0], math.inf, {"kv_blocks_used": 3.0}, complaints=["late"]
    )
    broken = Verdict(fault, worst).broken
    assert broken == [
        "1 hung",
        "2 tokens lost",
        "3 tokens doubled",
        "4 answers differ",
        "1 failed (503 ×1)",
        "recovery > 3.0 s",
        "stall > 1.0 s",
        "held: kv_blocks_used ×3",
        "late",
    ]
    assert Verdict(fault, Observation("f", 9, stalls=[0.5], recovery=2.9)).broken == []
    allowed = Fault("f", PLAYED, _nothing, Promise(failures=True, recovery=None))
    assert Verdict(allowed, Observation("f", 9, Counter({"503": 1}), recovery=math.inf)).broken == []


def test_the_table_has_a_row_for_each_fault_and_the_sums() -> None:
    fault = Fault("a fault", PLAYED, _nothing)
    verdicts = [Verdict(fault, Observation("a fault", 5, recovery=1.0)), Verdict(fault, Observation("b", 7, hung=1))]
    cells = total_cells(verdicts)
    assert cells[:4] == ["2 faults", "12", "0", "1"]
    assert cells[-1] == "by 1 faults"
    assert total_cells([Verdict(fault, Observation("c", 1_000_000, unequal=1))])[6] == "99.99"
    text = to_markdown(verdicts, "make faults", "2026-11-22", 1)
    assert "| a fault | 5 |" in text
