"""Flags of the workers that are simulated: how many, how fast, how large."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cyclopts import Parameter

from headrace.errors import InvalidRequest
from headrace.launch.worker_bounds import WorkerBounds

RATES = ("base_seconds", "prefill_seconds_per_token", "decode_seconds_per_sequence")
"""Keys of a file of rates, in seconds."""


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class WorkerFlags:
    """Workers to simulate. All are alike."""

    workers: int = 1
    """Number of workers, or with --autoscale of those at the start."""
    autoscale: str = ""
    """Fewest and most workers, MIN:MAX, of which there are as many as the scheduler wants."""
    start_seconds: float = 30.0
    """Seconds in which a further worker is ready, with --autoscale."""
    rates: Path | None = None
    """JSON file with a worker's step times: base_seconds, prefill_seconds_per_token and decode_seconds_per_sequence,
    as measured or assumed. The flags below win over it."""
    step_ms: float | None = None
    """Milliseconds that any step takes, however little it computes."""
    prefill_tokens_per_second: float | None = None
    """Tokens of prompts that a worker reads per second, beside what any step takes."""
    decode_ms: float | None = None
    """Milliseconds that each sequence which gets a token adds to a step."""
    max_running: int = 64
    """Sequences that a worker runs at once, at most."""
    max_step_tokens: int = 512
    """Tokens of a step, at most: prompts are read in parts of this size."""
    kv_tokens: int = 262_144
    """Tokens that the KV cache of a worker holds."""
    context: int = 131_072
    """Tokens of prompt and output together, at most."""

    def settings(self) -> dict[str, Any]:
        """Returns the settings of a Scenario that follow. Raises InvalidRequest for flags that cannot be."""
        counts = (self.workers, self.max_running, self.kv_tokens, self.context)
        if min(counts) < 1 or self.max_step_tokens < 16:
            raise InvalidRequest(
                "--workers, --max-running, --kv-tokens and --context must be at least 1, --max-step-tokens at least 16"
            )
        return {
            **self._counts(),
            "max_running_count": self.max_running,
            "max_step_token_count": self.max_step_tokens,
            "max_model_length": self.context,
            "kv_token_count": self.kv_tokens,
            **self._step_times(),
        }

    def _counts(self) -> dict[str, float]:
        if not self.autoscale:
            return {"worker_count": self.workers}
        bounds = WorkerBounds.parse(self.autoscale)
        if not (math.isfinite(self.start_seconds) and self.start_seconds >= 0):
            raise InvalidRequest("--start-seconds must be a number of seconds from 0 on")
        return {
            "worker_count": bounds.clamp(self.workers),
            "least_worker_count": bounds.least,
            "most_worker_count": bounds.most,
            "start_seconds": self.start_seconds,
        }

    def _step_times(self) -> dict[str, float]:
        times = _read_rates(self.rates) if self.rates is not None else {}
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
                "--prefill-tokens-per-second and --decode-ms"
            )
        if wrong := [name for name in RATES if not (math.isfinite(times[name]) and times[name] >= 0)]:
            raise InvalidRequest(f"{wrong[0]} is {times[wrong[0]]}; it must be a number of seconds from 0 on")
        return times


def _read_rates(path: Path) -> dict[str, float]:
    try:
        found = json.loads(path.expanduser().read_text(encoding="utf-8"))
        return {name: float(found[name]) for name in RATES if name in found}
    except OSError as error:
        raise InvalidRequest(f"{path} cannot be read: {error.strerror or error}") from None
    except (ValueError, TypeError) as error:
        raise InvalidRequest(f"{path} must be a JSON object with numbers {', '.join(RATES)}: {error}") from None
