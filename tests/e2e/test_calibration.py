"""A simulation of the running platform tells its own error, which is small where steps take a known time."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.command_line import headrace_here
from tests.harness.running_platform import RunningPlatform, running_platform

BASE_SECONDS = 0.006
BOUND = 0.5
"""Error that even a machine with other work stays within. `docs/results` has what a quiet one has."""


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPlatform]:
    """Two workers with sim engines, whose steps take a known time, and records of usage."""
    folder = tmp_path_factory.mktemp("calibration")
    config = folder / "platform.toml"
    config.write_text(
        f'[gateway]\nusage_folder = "{folder}/usage"\n'
        f"[worker]\nsim_base_seconds = {BASE_SECONDS}\nsim_prefill_seconds_per_token = 0.0002\n"
        "sim_decode_seconds_per_sequence = 0.001\nmax_running_count = 8\n"
    )
    with running_platform(folder / "state", ["--engine", "sim", "--replicas", "2", "--config", str(config)]) as running:
        yield running


def errors_of(*arguments: str) -> dict[str, float]:
    """Errors of figures by their names."""
    done = headrace_here("simulate", *arguments, "--calibrate", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["simulated_finished"] == found["requests"] > 20
    assert found["scenario"]["base_seconds"] == pytest.approx(BASE_SECONDS, rel=0.6)
    return {row["figure"]: row["error"] for row in found["figures"]}


def test_a_load_of_its_own_tells_the_error(platform: RunningPlatform) -> None:
    errors = errors_of("--url", platform.http, "--limit", "30")
    assert abs(errors["e2e_mean_ms"]) < BOUND
    assert abs(errors["tpot_mean_ms"]) < BOUND
    assert {"ttft_mean_ms", "ttft_p99_ms"} <= errors.keys()


def test_runs_that_were_recorded_tell_it_in_a_table_too(platform: RunningPlatform, tmp_path: Path) -> None:
    saved, load = tmp_path / "run.json", ("--requests", "30", "--concurrency", "4", "--seed", "7")
    assert headrace_here("bench", "--url", platform.http, *load, "--save", str(saved)).returncode == 0
    assert abs(errors_of(str(saved), "--url", platform.http)["e2e_mean_ms"]) < BOUND
    (usage,) = (platform.state_dir.parent / "usage").glob("*.jsonl")
    errors = errors_of(str(usage), "--url", platform.http)
    assert abs(errors["e2e_mean_ms"]) < BOUND
    assert "ttft_mean_ms" not in errors, "records of usage have no first tokens"
    shown = headrace_here("simulate", str(saved), "--calibrate", "--url", platform.http).stdout
    assert "TTFT p99, ms" in shown
    assert "platform  simulated" in shown


def test_what_cannot_be_compared_is_named(platform: RunningPlatform, tmp_path: Path) -> None:
    empty = tmp_path / "usage.jsonl"
    empty.write_text("")
    for arguments, said in (((str(empty),), "has no finished request"), (("--rate", "2"), "leave out --rate")):
        done = headrace_here("simulate", *arguments, "--calibrate", "--url", platform.http)
        assert done.returncode == 2
        assert said in done.stderr
