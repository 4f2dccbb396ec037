"""A running platform beside its simulation."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headrace.cli.commands.simulate.calibration_load import load_platform
from headrace.cli.commands.simulate.measured_worker import measured_worker, worker_count
from headrace.cli.commands.simulate.recorded_run import read_run
from headrace.cli.commands.simulate.simulation_error import compared, overhead_seconds
from headrace.cli.commands.simulate.traffic_flags import TrafficFlags
from headrace.cli.commands.simulate.worker_flags import WorkerFlags
from headrace.cli.target import choose_model
from headrace.errors import InvalidRequest

REQUEST_COUNT = 60
QUICK_PERCENT = 10.0
"""Percentile of the requests of a recorded run that are taken to have found an idle worker."""


def calibrated(
    url: str,
    key: str,
    model: str | None,
    run: Path | None,
    traffic: TrafficFlags,
    worker: WorkerFlags,
    simulate: Callable[[dict[str, Any]], dict[str, Any]],
) -> dict[str, Any]:
    """Compares a recorded run, or a load that it makes itself, with the simulation of a platform whose workers are as
    they measured themselves. Raises InvalidRequest for what cannot be compared, and the platform's errors."""
    if traffic.rate != 1.0 or worker.autoscale:
        raise InvalidRequest(
            "--calibrate plays requests as they came, on as many workers: leave out --rate, --autoscale"
        )
    chosen = choose_model(url, model, key)
    if run is None:
        count = traffic.limit or REQUEST_COUNT
        load = load_platform(url, chosen, key, worker_count(url, key, chosen), count, time.time_ns())
        requests, quick, percent = load.requests, load.singles, 50.0
        facts = {"rate": round(load.rate, 3)}
    else:
        requests = quick = read_run(run, chosen)[: traffic.limit]
        percent, facts = QUICK_PERCENT, {}
    settings = worker.settings(measured_worker(url, key, chosen))
    overhead = traffic.overhead_ms / 1000 or overhead_seconds(quick, settings, percent)
    scenario = {**traffic.settings(), **settings, "overhead_seconds": overhead, "limit": None}
    return facts | compared(requests, scenario, simulate)
