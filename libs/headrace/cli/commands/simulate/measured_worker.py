"""Speed and size of a worker of a running platform, as it measured them."""

from typing import Any

from headrace.cli.reach.platform_http import get
from headrace.cli.target import choose_model, key_headers
from headrace.client.http_errors import error_of
from headrace.errors import NotFound, Unavailable

TIMEOUT = 10.0


def measured_worker(url: str, key: str, model: str | None) -> dict[str, Any]:
    """Returns the settings of a Scenario that follow from the workers of a model: their number, and the speed and size
    of the one that has run the most. Raises NotFound or Unavailable where nothing is known, and the refusal of the
    key."""
    workers = _workers(url, key, choose_model(url, model, key))
    busiest = max(workers, key=lambda worker: float(worker["busy_seconds"]))
    times = busiest["step_times"]
    if times is None:
        raise Unavailable(f"{busiest['id']} has run too few steps to know its speed: send it some requests first")
    return {
        "worker_count": len(workers),
        "base_seconds": times["base"],
        "prefill_seconds_per_token": times["prompt_token"],
        "decode_seconds_per_sequence": times["sequence"],
        "context_seconds_per_token": times["context_token"],
        "max_step_token_count": busiest["step_tokens"],
        "max_step_seconds": busiest["max_step_seconds"],
        "max_running_count": busiest["sessions"] + busiest["credit"],
        "kv_token_count": busiest["kv_blocks"] * busiest["kv_block_tokens"],
        "block_size": busiest["kv_block_tokens"],
    }


def worker_count(url: str, key: str, model: str) -> int:
    """Returns the number of workers of a model. Raises NotFound where there are none."""
    return len(_workers(url, key, model))


def _workers(url: str, key: str, model: str) -> list[dict[str, Any]]:
    response = get(f"{url}/headrace/fleet", key_headers(key), TIMEOUT)
    if response.is_error:
        raise error_of(response.status_code, response.headers, response.content)
    workers = [worker for worker in response.json()["workers"] if worker["model"] == model]
    if not workers:
        raise NotFound(f"no worker of {model!r} is attached to {url}")
    return workers
