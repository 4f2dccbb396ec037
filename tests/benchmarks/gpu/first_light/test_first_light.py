"""The first minutes at a card can be rehearsed without one, and a step that fails stops no other."""

import json
import sys
from pathlib import Path

import pytest
from tests.benchmarks.gpu.first_light import __main__ as first_light
from tests.benchmarks.gpu.first_light.light_page import write_page
from tests.benchmarks.gpu.first_light.steps import STEPS, Step

TIMEOUT = 120
QUICK = ("facts", "kernels", "rivals")
"""Steps that take seconds in a rehearsal; `make test-gpu-kernels` rehearses all."""


@pytest.mark.process
@pytest.mark.timeout(TIMEOUT)
def test_steps_run_in_a_rehearsal(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The processes are those of the steps."""
    monkeypatch.chdir(root)
    monkeypatch.setattr(sys, "argv", ["first_light", "--rehearse", "--out", str(tmp_path), "--only", *QUICK])
    with pytest.raises(SystemExit) as end:
        first_light.main()
    assert not end.value.code, capsys.readouterr().out[-4000:]
    lines = [json.loads(line) for line in (tmp_path / "first_light.jsonl").read_text().splitlines()]
    assert {line["step"] for line in lines} == set(QUICK)
    assert all(line["ok"] for line in lines)
    assert "Nothing was wrong." in (tmp_path / "first_light.md").read_text()


@pytest.mark.process
def test_a_step_that_does_not_exist_or_end_is_told_and_the_next_one_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root: Path
) -> None:
    """The first is refused by its own process; the second gets no time."""
    monkeypatch.chdir(root)
    facts = STEPS[0]
    steps = [Step("nothing", 60.0, facts.run), Step(facts.name, 0.01, facts.run), Step(facts.name, 60.0, facts.run)]
    lines = first_light.run_steps(steps, tmp_path / "lines.jsonl", "cpu", 1.0)
    ends = [line for line in lines if "end" in line]
    assert [line["ok"] for line in ends] == [False, False, True]
    assert ends[0]["end"] == "exit status 1"
    assert "StopIteration" in ends[0]["errors"]
    assert ends[1]["end"] == "no end within 0 s"
    assert len((tmp_path / "lines.jsonl").read_text().splitlines()) == len(lines)
    assert "Wrong:" in write_page(lines)


def test_the_page_has_rates_and_shares() -> None:
    decode = {"graphs": "on", "context": 9, "batch": 2, "step_seconds": 0.5}
    prefill = {"prompt": 80, "prefill_seconds": 0.1}
    whole = {"batch": 2, "step_microseconds": 9.0, "busy_microseconds": 8.0, "launches": 12.0}
    share = {"batch": 2, "kernel": "multiply", "microseconds": 5.0, "launches": 4.0}
    page = write_page([{"step": "speed", "ok": True} | line for line in (decode, prefill, whole, share)])
    for row in (
        "| on | 9 | 2 | 500.00 | 4 |",
        "| 80 | 100.0 | 800 |",
        "| 2 | whole step | 9.0 | 12.0 |",
        "| 2 | multiply | 5.0 | 4.0 |",
    ):
        assert row in page
