"""Flags of the workers that are simulated: how many, how fast, how large."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cyclopts import Parameter

from headrace.errors import InvalidRequest
from headrace.launch.worker_bounds import WorkerBounds

RATES = ("base_seconds", "prefill_seconds_per_token", "decode_seconds_per_sequence")
"""Keys of a file of rates, in seconds."""
CONTEXT_RATE = "context_seconds_per_token"
"""Key that such a file may have too."""
USUAL = {"worker_count": 1, "max_running_count": 64, "max_step_token_count": 512, "kv_token_count": 262_144}
"""Sizes where neither flags nor a platform name others."""


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class WorkerFlags:
    """Workers to simulate. All are alike."""

    workers: int | None = None
    """Number of workers, or with --autoscale of those at the start. Without --measured, 1 by default."""
    autoscale: str = ""
    """Fewest and most workers, MIN:MAX, of which there are as many as the scheduler wants."""
    start_seconds: float = 30.0
    """Seconds in which a further worker is ready, with --autoscale."""
    rates: Path | None = None
    """JSON file with a worker's step times: base_seconds, prefill_seconds_per_token, decode_seconds_per_sequence and,
    if that is known, context_seconds_per_token, as measured or assumed. The flags below win over it."""
    step_ms: float | None = None
    """Milliseconds that any step takes, however little it computes."""
    prefill_tokens_per_second: float | None = None
    """Tokens of prompts that a worker reads per second, beside what any step takes."""
    decode_ms: float | None = None
    """Milliseconds that each sequence which gets a token adds to a step."""
    max_running: int | None = None
    """Sequences that a worker runs at once, at most. Without --measured, 64 by default."""
    max_step_tokens: int | None = None
    """Tokens of a step, at most: prompts are read in parts of this size. Without --measured, 512 by default."""
    max_step_ms: float | None = None
    """Milliseconds that a step which reads prompts should take at most while others wait for a token. 0: any time.
    Without --measured, 200 by default."""
    kv_tokens: int | None = None
    """Tokens that the KV cache of a worker holds. Without --measured, 262144 by default."""
    hourly_price: float = 0.0
    """Price of an hour of a worker, in any currency: figures then have costs. 0: not known."""
    context: int = 131_072
    """Tokens of prompt and output together, at most."""

    def settings(self, measured: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the settings of a Scenario that follow from flags and, where there are none, from what was
        `measured`. Raises InvalidRequest for flags that cannot be."""
        given = {
            "worker_count": self.workers,
            "max_running_count": self.max_running,
            "max_step_token_count": self.max_step_tokens,
            "max_model_length": self.context,
            "kv_token_count": self.kv_tokens,
        }
        counts = {**USUAL, **measured} | {name: count for name, count in given.items() if count is not None}
        if min(counts[name] for name in given) < 1 or counts["max_step_token_count"] < 16:
            raise InvalidRequest(
                "--workers, --max-running, --kv-tokens and --context must be at least 1, --max-step-tokens at least 16"
            )
        for name, amount in (("--hourly-price", self.hourly_price), ("--max-step-ms", self.max_step_ms or 0.0)):
            if not (math.isfinite(amount) and amount >= 0):
                raise InvalidRequest(f"{name} must be a number from 0 on")
        if self.max_step_ms is not None:
            counts["max_step_seconds"] = self.max_step_ms / 1000
        counts["hourly_price"] = self.hourly_price
        return counts | self._bounds(counts["worker_count"]) | self._step_times(measured)

    def _bounds(self, worker_count: int) -> dict[str, float]:
        if not self.autoscale:
            return {}
        bounds = WorkerBounds.parse(self.autoscale)
        if not (math.isfinite(self.start_seconds) and self.start_seconds >= 0):
            raise InvalidRequest("--start-seconds must be a number of seconds from 0 on")
        return {
            "worker_count": bounds.clamp(worker_count),
            "least_worker_count": bounds.least,
            "most_worker_count": bounds.most,
            "start_seconds": self.start_seconds,
        }

    def _step_times(self, measured: Mapping[str, Any]) -> dict[str, float]:
        times = {name: float(measured[name]) for name in (*RATES, CONTEXT_RATE) if name in measured}
        times |= _read_rates(self.rates) if self.rates is not None else {}
        if self.prefill_tokens_per_second is not None:
            if not self.prefill_tokens_per_second > 0:
                raise InvalidRequest("--prefill-tokens-per-second must be above 0")
            times["prefill_seconds_per_token"] = 1 / self.prefill_tokens_per_second
        for name, given in (("base_seconds", self.step_ms), ("decode_seconds_per_sequence", self.decode_ms)):
            if given is not None:
                times[name] = given / 1000
        if missing := [name for name in RATES if name not in times]:
            raise InvalidRequest(
                f"the speed of a worker is not known ({', '.join(missing)}): give --rates FILE, or --step-ms, "
                "--prefill-tokens-per-second and --decode-ms, or --measured for those of the running platform"
            )
        if wrong := [name for name in times if not (math.isfinite(times[name]) and times[name] >= 0)]:
            raise InvalidRequest(f"{wrong[0]} is {times[wrong[0]]}; it must be a number of seconds from 0 on")
        return times


def _read_rates(path: Path) -> dict[str, float]:
    try:
        found = json.loads(path.expanduser().read_text(encoding="utf-8"))
        return {name: float(found[name]) for name in (*RATES, CONTEXT_RATE) if name in found}
    except OSError as error:
        raise InvalidRequest(f"{path} cannot be read: {error.strerror or error}") from None
    except (ValueError, TypeError) as error:
        raise InvalidRequest(f"{path} must be a JSON object with numbers {', '.join(RATES)}: {error}") from None
