"""`headrace simulate`: plays a trace of traffic against the scheduler in virtual time, once for each policy.

Each simulation runs in a process of the scheduler's package, which alone knows the core: two at a time.
"""

import json as json_format
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from headrace.cli.commands.simulate.calibrated_platform import calibrated
from headrace.cli.commands.simulate.measured_worker import measured_worker
from headrace.cli.commands.simulate.tables.calibration_table import calibration_table
from headrace.cli.commands.simulate.tables.figures_table import figures_table
from headrace.cli.commands.simulate.tables.search_table import search_table
from headrace.cli.commands.simulate.traffic_flags import TrafficFlags
from headrace.cli.commands.simulate.worker_flags import WorkerFlags
from headrace.cli.commands.simulate.worker_search import WorkerSearch
from headrace.cli.output import console, error_console, fail, print_json
from headrace.cli.target import AuthorityFlag, KeyFlag, platform_url
from headrace.errors import ConfigError, InternalError, InvalidRequest
from headrace.launch.worker_bounds import WorkerBounds
from headrace.supervisor.state import DEFAULT_FOLDER

_WHOLE_TRACE, _USUAL_WORKERS = TrafficFlags(), WorkerFlags()
WRONG_INPUT = 2
"""Exit code for a trace, a policy or a flag that cannot be."""


def simulate(
    trace: Path | None = None,
    *,
    traffic: TrafficFlags = _WHOLE_TRACE,
    worker: WorkerFlags = _USUAL_WORKERS,
    policy: Annotated[tuple[str, ...], Parameter(negative="")] = ("default",),
    measured: Annotated[bool, Parameter(negative="")] = False,
    find_workers: str = "",
    calibrate: Annotated[bool, Parameter(negative="")] = False,
    model: str | None = None,
    key: KeyFlag = "",
    url: str = "",
    ca: AuthorityFlag = None,
    state_dir: Path = DEFAULT_FOLDER,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Plays a trace of traffic against the scheduler in virtual time, and prints what clients would have seen.

    The scheduler's core and the engine's batcher are the real ones; steps take the time that the flags say. The same
    trace and flags print the same.

    Parameters
    ----------
    trace
        A file in the form of Azure's or BurstGPT's traces (CSV), of Mooncake's or of a gateway's records of usage
        (JSONL). With --calibrate records of usage, or a run that `headrace bench --save` has written; without a file
        the running platform gets a short load.
    traffic
        Part of the trace to play.
    worker
        Workers to simulate.
    policy
        Settings of the scheduler, such as max_window_seconds=0,max_batch_size=16, or default. Repeat it to compare
        several.
    measured
        Takes number, speed and size of the workers from the running platform, as they measured them. Flags win over
        it.
    find_workers
        Searches the fewest workers, from MIN:MAX, with which 95 of 100 requests meet --ttft-ms and --itl-ms.
    calibrate
        Compares a run of the running platform with its simulation, with the workers as they measured themselves, and
        prints the error. Without a file it sends 60 requests itself, or --limit; the platform should have no others.
    model
        The model whose workers are meant, with --measured and --calibrate. By default the first that can chat.
    key
        API key, where the platform asks for one. Better given as HEADRACE_API_KEY.
    url
        Address of a gateway, instead of that of the state folder.
    state_dir
        The state folder that the platform was started with.
    json
        Print one JSON object.
    """
    try:
        if calibrate:
            play = partial(_simulated, policy=policy[0])
            with error_console.status("comparing"):
                error = calibrated(platform_url(url, state_dir, ca), key, model, trace, traffic, worker, play)
            print_json(error) if json else console.print(calibration_table(error))
            return
        if trace is None:
            raise InvalidRequest("name the trace to play, or --calibrate")
        known = measured_worker(platform_url(url, state_dir, ca), key, model) if measured else {}
        scenario = {"trace": str(trace.expanduser()), **traffic.settings(), **worker.settings(known)}
        if find_workers:
            _search(scenario, policy[0], find_workers, as_json=json)
        else:
            _compare(scenario, policy, as_json=json)
    except (ConfigError, InvalidRequest) as error:
        fail(error.message, as_json=json, code=WRONG_INPUT)


def _compare(scenario: dict[str, Any], policies: tuple[str, ...], *, as_json: bool) -> None:
    """Plays the scenario once for each policy, and prints the figures."""
    with error_console.status("simulating"), ThreadPoolExecutor(2) as pool:
        found = list(pool.map(partial(_simulated, scenario), dict.fromkeys(policies)))
    if as_json:
        print_json({"scenario": scenario, "policies": found})
        return
    console.print(figures_table(found))
    if skipped := found[0]["skipped_rows"]:
        console.print(f"[dim]{skipped:,} rows of the trace have no prompt or no output, and were left out.[/]")


def _search(scenario: dict[str, Any], policy: str, bounds: str, *, as_json: bool) -> None:
    """Searches the fewest workers, and prints what was tried."""
    with error_console.status("searching"):
        found = _searched(scenario, policy, bounds)
    if as_json:
        print_json(found)
        return
    console.print(search_table(found["tried"]))
    fewest, certain = (found[name] or "none of these" for name in ("workers", "certain_workers"))
    console.print(f"Fewest workers that suffice: {fewest}; at the low end of the interval: {certain}.")


def _searched(scenario: dict[str, Any], policy: str, bounds: str) -> dict[str, Any]:
    """Searches the fewest workers. Raises InvalidRequest where there is nothing to search for."""
    if scenario["ttft_seconds"] is None and scenario["tpot_seconds"] is None:
        raise InvalidRequest("--find-workers wants a service level to meet: --ttft-ms or --itl-ms")
    if "most_worker_count" in scenario:
        raise InvalidRequest("--find-workers looks for one number of workers: leave out --autoscale")
    try:
        limits = WorkerBounds.parse(bounds)
    except ConfigError:
        raise InvalidRequest(f"--find-workers is {bounds[:40]!r}; it must be MIN:MAX, such as 1:64") from None
    return WorkerSearch(lambda count: _simulated(scenario | {"worker_count": count}, policy), limits).result()


def _simulated(scenario: dict[str, Any], policy: str) -> dict[str, Any]:
    """Runs one simulation. Raises InvalidRequest with its own words, or InternalError if it failed."""
    command = [sys.executable, "-P", "-m", "headrace.scheduler.simulation"]
    content = json_format.dumps(scenario | {"policy": policy})
    done = subprocess.run(command, input=content, capture_output=True, text=True, check=False)
    if done.returncode not in (0, WRONG_INPUT):
        lines = done.stderr.strip().splitlines()
        raise InternalError(f"the simulation failed: {lines[-1] if lines else f'exit code {done.returncode}'}")
    found: dict[str, Any] = json_format.loads(done.stdout)
    if "error" in found:
        raise InvalidRequest(found["error"])
    return found
