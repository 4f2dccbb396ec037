"""The page about engines compared, from figures that were made up: no peer is needed."""

from tests.benchmarks.peers.machine import Machine, this_machine
from tests.benchmarks.peers.report import US, Comparison, Report
from tests.benchmarks.peers.workload import MEMORY, PREFILL, START

MACHINE = Machine("Some Processor", ("avx2",), ("amx_int8",), ("AMX (this processor does not have it)",), 2, 24.0)
ROUNDS = {
    US: [{PREFILL: 300.0, START: 1.0, MEMORY: 650.0}, {PREFILL: 340.0, START: 0.8, MEMORY: 651.0}],
    "llama.cpp": [{PREFILL: 130.0, START: 2.0, MEMORY: 600.0}, {PREFILL: 130.0, START: 2.0, MEMORY: 600.0}],
    "vllm": [{PREFILL: 200.0, START: 90.0, MEMORY: 7000.0}, {PREFILL: 240.0, START: 90.0, MEMORY: 7000.0}],
}
REPORT = Report(
    "2026-12-01", "some command", MACHINE, 2, {"openvino": "not asked for"}, [Comparison("x", ROUNDS, [30.0, 40.0])]
)


def test_it_says_where_how_and_what_was_missing() -> None:
    page = REPORT.page()
    assert (
        "2026-12-01, Some Processor, 2 cores, 24 GiB; avx2; 2 threads each.\n\nNot on this machine: amx_int8." in page
    )
    assert "Our kernels that do not run here: AMX (this processor does not have it)." in page
    assert "openvino was not available: not asked for." in page
    assert "```\nsome command\n```" in page


def test_a_row_has_medians_and_the_ratio_to_the_best_peer() -> None:
    lines = REPORT.page().splitlines()
    assert (
        f"| {PREFILL} | 320.0 (300.0–340.0) | 130.0 (130.0–130.0) | 220.0 (200.0–240.0) | 1.45 | ≥ 1.3 | held |"
        in lines
    )


def test_less_memory_and_time_are_better() -> None:
    rows = {line.split(" | ")[0].removeprefix("| "): line for line in REPORT.page().splitlines()}
    assert rows[START].endswith("| 0.45 | ≤ 1 | held |")
    assert rows[MEMORY].endswith("| 1.08 | ≤ 1 | missed |")


def test_without_peers_there_is_no_ratio() -> None:
    comparison = Comparison("x", {US: ROUNDS[US]}, [30.0])
    assert comparison.ratio(PREFILL) is None


def test_this_machine_is_described() -> None:
    found = this_machine()
    assert found.processor
    assert found.core_count >= 1
    assert found.memory_gib > 0
    assert not set(found.instruction_sets) & set(found.missing_sets)
