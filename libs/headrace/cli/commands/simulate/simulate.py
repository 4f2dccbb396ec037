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

from headrace.cli.commands.simulate.figures_table import figures_table
from headrace.cli.commands.simulate.worker_flags import WorkerFlags
from headrace.cli.output import console, error_console, fail, print_json
from headrace.errors import InternalError, InvalidRequest

_USUAL_WORKERS = WorkerFlags()
WRONG_INPUT = 2
"""Exit code for a trace, a policy or a flag that cannot be."""


def simulate(
    trace: Path,
    *,
    worker: WorkerFlags = _USUAL_WORKERS,
    policy: Annotated[tuple[str, ...], Parameter(negative="")] = ("default",),
    rate: float = 1.0,
    seconds: float | None = None,
    limit: int | None = None,
    ttft_ms: Annotated[float | None, Parameter(name=("--ttft-ms", "--slo-ttft-ms"))] = None,
    itl_ms: Annotated[float | None, Parameter(name=("--itl-ms", "--slo-tpot-ms"))] = None,
    timeout: float = 600.0,
    overhead_ms: float = 0.0,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Plays a trace of traffic against the scheduler in virtual time, and prints what clients would have seen.

    The scheduler's core and the engine's batcher are the real ones; steps take the time that the flags say. The same
    trace and flags print the same.

    Parameters
    ----------
    trace
        A file in the form of Azure's or BurstGPT's traces (CSV), of Mooncake's or of a gateway's records of usage
        (JSONL).
    worker
        Workers to simulate.
    policy
        Settings of the scheduler, such as max_window_seconds=0,max_batch_size=16, or default. Repeat it to compare
        several.
    rate
        Factor by which requests come faster than in the trace.
    seconds
        Play only the first seconds of the trace.
    limit
        Play only so many requests of the trace, the first ones.
    ttft_ms
        Goodput counts requests whose first token came within this many milliseconds.
    itl_ms
        Goodput counts requests whose mean time between tokens stayed within this many milliseconds.
    timeout
        Seconds that a request may take in all.
    overhead_ms
        Milliseconds between a request and its arrival at the scheduler, which are part of the TTFT.
    json
        Print one JSON object.
    """
    try:
        _check(rate, seconds, limit, timeout, overhead_ms)
        scenario = {
            "trace": str(trace.expanduser()),
            "rate": rate,
            "seconds": seconds,
            "limit": limit,
            "timeout_seconds": timeout,
            "overhead_seconds": overhead_ms / 1000,
            "ttft_seconds": None if ttft_ms is None else ttft_ms / 1000,
            "tpot_seconds": None if itl_ms is None else itl_ms / 1000,
            **worker.settings(),
        }
        with error_console.status("simulating"), ThreadPoolExecutor(2) as pool:
            found = list(pool.map(partial(_simulated, scenario), dict.fromkeys(policy)))
    except InvalidRequest as error:
        fail(error.message, as_json=json, code=WRONG_INPUT)
    if json:
        print_json({"scenario": scenario, "policies": found})
        return
    console.print(figures_table(found))
    if skipped := found[0]["skipped_rows"]:
        console.print(f"[dim]{skipped:,} rows of the trace have no prompt or no output, and were left out.[/]")


def _check(rate: float, seconds: float | None, limit: int | None, timeout: float, overhead_ms: float) -> None:
    if not 0 < rate < float("inf"):
        raise InvalidRequest("--rate must be above 0")
    if (seconds is not None and not seconds > 0) or (limit is not None and limit < 1):
        raise InvalidRequest("--seconds must be above 0, and --limit at least 1")
    if not (timeout > 0 and overhead_ms >= 0):
        raise InvalidRequest("--timeout must be above 0, and --overhead-ms at least 0")


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
