"""`headrace simulate` plays a trace for each policy, and says what is wrong with what it is given."""

import io
import json
import subprocess
import sys
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.e2e.command_line import Done, headrace_here

from headrace.cli.commands.simulate import simulate as simulate_command
from headrace.scheduler.simulation.__main__ import main as play

SPEED = ("--step-ms", "10", "--prefill-tokens-per-second", "10000", "--decode-ms", "0.5")
WITHOUT_TORCH = 'import sys\nsys.modules["torch"] = None\nfrom headrace.cli.__main__ import main\nmain()\n'


@pytest.fixture
def played_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plays the scenarios of this process in it, which is spared the imports of each. Those of the other tests are
    played in processes of their own."""
    monkeypatch.setattr(simulate_command, "subprocess", SimpleNamespace(run=play_here))


def play_here(command: list[str], input: str, **_: Any) -> Done:
    assert command[-2:] == ["-m", "headrace.scheduler.simulation"]
    code, said = played(input)
    return Done(command, code, said, "")


@cache
def played(scenario: str) -> tuple[int, str]:
    """Returns the exit code and the figures of a scenario, which are a function of it."""
    said = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(said):
        patch.setattr(sys, "stdin", io.StringIO(scenario))
        code = play()
    return code, said.getvalue()


def simulate(*arguments: str) -> Done:
    return headrace_here("simulate", *arguments)


@pytest.fixture
def trace(tmp_path: Path) -> str:
    rows = "".join(f"2023-11-16 18:17:{n // 10:02d}.{n % 10}00,{50 + 37 * (n % 20)},{5 + n % 30}\n" for n in range(200))
    path = tmp_path / "azure.csv"
    path.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n" + rows)
    return str(path)


def test_policies_stand_side_by_side(trace: str) -> None:
    policies = ("--policy", "default", "--policy", "max_waiting_count=1,max_window_seconds=0")
    done = simulate(trace, *SPEED, *policies, "--max-running", "4", "--rate", "5", "--ttft-ms", "300")
    assert done.returncode == 0, done.stderr
    assert "max_waiting_count=1" in done.stdout
    assert "TTFT p50, p95, p99, ms" in done.stdout
    assert "queue_full" in done.stdout


@pytest.mark.process
def test_another_process_without_torch_says_the_same(trace: str) -> None:
    arguments = (trace, *SPEED, "--workers", "2", "--limit", "100", "--json")
    command = [sys.executable, "-c", WITHOUT_TORCH, "simulate", *arguments]
    other = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert simulate(*arguments).stdout == other.stdout
    (found,) = json.loads(other.stdout)["policies"]
    assert (found["requests"], found["finished"], found["workers"]) == (100, 100, 2)


@pytest.mark.usefixtures("played_here")
def test_rates_come_from_a_file_and_flags_win(trace: str, tmp_path: Path) -> None:
    rates = tmp_path / "rates.json"
    times = {"base_seconds": 0.01, "prefill_seconds_per_token": 0.0001, "decode_seconds_per_sequence": 0.0005}
    rates.write_text(json.dumps(times | {"machine": "any"}))
    by_file = simulate(trace, "--rates", str(rates), "--json")
    assert json.loads(by_file.stdout)["policies"] == json.loads(simulate(trace, *SPEED, "--json").stdout)["policies"]
    slower = simulate(trace, "--rates", str(rates), "--step-ms", "40", "--json")
    assert json.loads(slower.stdout)["policies"][0]["itl_ms"]["p50"] > 40


@pytest.mark.usefixtures("played_here")
def test_workers_follow_the_demand(trace: str) -> None:
    scaled = (*SPEED, "--autoscale", "1:4", "--start-seconds", "2", "--max-running", "2", "--rate", "3")
    done = simulate(trace, *scaled, "--json")
    (found,) = json.loads(done.stdout)["policies"]
    assert found["finished"] == 200
    assert 1 < found["most_workers"] <= 4


@pytest.mark.usefixtures("played_here")
@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ((), "the speed of a worker is not known"),
        (("--step-ms", "10"), "prefill_seconds_per_token, decode_seconds_per_sequence"),
        ((*SPEED, "--policy", "zork=1"), "'zork=1'"),
        ((*SPEED, "--policy", "max_window_seconds=7"), "max_window_seconds"),
        ((*SPEED, "--workers", "0"), "--workers"),
        ((*SPEED, "--rate", "0"), "--rate"),
        ((*SPEED, "--autoscale", "4:1"), "MIN:MAX"),
        ((*SPEED, "--autoscale", "1:4", "--start-seconds", "-1"), "--start-seconds"),
        ((*SPEED, "--limit", "0"), "--limit"),
        ((*SPEED[2:], "--step-ms", "-1"), "base_seconds"),
        (("--rates", "/nowhere.json"), "/nowhere.json cannot be read"),
        ((*SPEED, "--find-workers", "1:4"), "--ttft-ms or --itl-ms"),
        ((*SPEED, "--find-workers", "4:1", "--ttft-ms", "9"), "--find-workers is '4:1'"),
        ((*SPEED, "--hourly-price", "-1"), "--hourly-price"),
    ],
)
def test_a_mistake_is_named(trace: str, flags: tuple[str, ...], said: str) -> None:
    done = simulate(trace, *flags)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.usefixtures("played_here")
def test_a_fault_of_the_trace_is_named_with_its_line(trace: str) -> None:
    path = Path(trace)
    path.write_text(path.read_text() + "soon,1,1\n")
    done = simulate(trace, *SPEED, "--json")
    assert done.returncode == 2
    assert "line 202: TIMESTAMP is 'soon'" in json.loads(done.stdout)["message"]


@pytest.mark.usefixtures("played_here")
def test_the_fewest_workers_are_found_and_have_a_price(trace: str) -> None:
    flags = (*SPEED, "--max-running", "2", "--rate", "3", "--ttft-ms", "300", "--hourly-price", "2.5")
    found = json.loads(simulate(trace, *flags, "--find-workers", "1:16", "--json").stdout)
    by_count = {one["workers"]: one for one in found["tried"]}
    fewest = found["workers"]
    assert fewest > 1
    assert by_count[fewest]["goodput_share"] >= 0.95 > by_count[fewest - 1]["goodput_share"]
    assert found["certain_workers"] >= fewest
    assert by_count[fewest]["cost"] == pytest.approx(2.5 * by_count[fewest]["worker_hours"], abs=0.001)
    assert by_count[fewest]["cost_per_million_output_tokens"] > by_count[fewest]["cost_per_million_tokens"] > 0
    shown = simulate(trace, *flags, "--find-workers", "1:16").stdout
    assert f"Fewest workers that suffice: {fewest}" in shown
