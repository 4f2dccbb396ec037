"""Division of one amount of memory over all processes of a platform, for `headrace up --memory`."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from headrace.cli.parsing.byte_size import size_text
from headrace.errors import ConfigError
from headrace.launch.platform_spec import ModelSource, PlatformSpec
from headrace.launch.roster import Roster

PROCESS_BYTES = 128 * 2**20
"""Bytes that a process takes beside weights and KV cache: about twice what one takes that has nothing to do (35 to 74
MB, measured as its proportional share), so that there is room for requests."""
MIN_KV_BYTES = 32 * 2**20
"""Bytes of the smallest KV cache that is worth a start."""
AWAKE_SHARE = 2 / 3
"""Share of a shared worker's memory for models that are awake: the proportion of its own defaults."""
WEIGHTS = (".safetensors", ".gguf", ".bin")


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Parts of the memory, in bytes."""

    total: int
    process_count: int
    """Processes of the platform, with NATS and the supervisor."""
    weights: dict[str, int]
    """Bytes of weights by model, of one worker, with drafts and adapters."""
    worker_count: int
    """Workers, each with a KV cache of its own."""
    copies: int
    """Workers of each model."""
    is_shared: bool
    """Whether one worker's models take turns."""

    @classmethod
    def of(cls, total: int, spec: PlatformSpec) -> "MemoryPlan":
        """Divides memory. Raises ConfigError, with what it would take, where it is too little."""
        roster = Roster.of(spec)
        plan = cls(
            total,
            len(roster.names) + 2,
            {model.name: _weights_of(model, str(spec.model_options.get("precision", "auto"))) for model in spec.models},
            len(roster.workers),
            spec.replicas + spec.prefill_workers,
            spec.shared_worker,
        )
        plan._check()
        return plan

    @property
    def left(self) -> int:
        """Bytes for workers, beside all processes themselves."""
        return self.total - self.process_count * PROCESS_BYTES

    @property
    def kv_bytes(self) -> int:
        """Bytes of each worker's KV cache."""
        return (self.left - self.copies * sum(self.weights.values())) // self.worker_count

    @property
    def awake_bytes(self) -> int:
        """Bytes of models that are awake in each shared worker, weights and KV caches."""
        return int(self.left / self.worker_count * AWAKE_SHARE)

    def settings(self) -> dict[str, int]:
        """Returns the settings of each worker that keep it within its part."""
        if self.is_shared:
            return {"awake_bytes": self.awake_bytes, "asleep_bytes": self.left // self.worker_count - self.awake_bytes}
        return {"kv_cache_bytes": self.kv_bytes}

    def applied(self, spec: PlatformSpec) -> PlatformSpec:
        """Returns a platform whose workers keep within their parts."""
        if self.is_shared:
            return replace(spec, residency_options={**spec.residency_options, **self.settings()})
        return replace(spec, model_options={**spec.model_options, **self.settings()})

    def text(self) -> str:
        """Says in lines what each part of the platform gets."""
        head = f"{size_text(self.total)} of memory: {size_text(self.process_count * PROCESS_BYTES)} for "
        head += f"{self.process_count} processes"
        if self.is_shared:
            parts = self.settings()
            awake, asleep = size_text(parts["awake_bytes"]), size_text(parts["asleep_bytes"])
            return f"{head}, and for each worker {awake} for models awake and {asleep} for those asleep"
        rows = [
            f"  {name}: {_times(self.copies, 'worker')} with {size_text(size)} of weights and "
            f"{size_text(self.kv_bytes)} of KV cache"
            for name, size in self.weights.items()
        ]
        return "\n".join([head, *rows])

    def _check(self) -> None:
        if self.is_shared:
            largest = max(self.weights.values(), default=0)
            needed = int((largest + MIN_KV_BYTES) / AWAKE_SHARE) * self.worker_count
        else:
            needed = self.copies * sum(self.weights.values()) + MIN_KV_BYTES * self.worker_count
        if self.left >= needed:
            return
        weights = ", ".join(f"{name} {size_text(size)}" for name, size in self.weights.items())
        # Rounded up, so that what it says is enough.
        least = math.ceil((needed + self.process_count * PROCESS_BYTES) / 1e8) * 1e8
        where = "" if self.copies == 1 else f" in each of {self.copies} workers"
        raise ConfigError(
            f"--memory {size_text(self.total)} is too little: weights take {weights}{where}, and "
            f"{self.process_count} processes take {size_text(self.process_count * PROCESS_BYTES)}. Give at "
            f"least {size_text(least)}, serve fewer models, or smaller ones (headrace quantize)",
            param="memory",
        )


def _weights_of(model: ModelSource, precision: str) -> int:
    """Returns the bytes of a model's weights in memory, as its files have them; twice that where 16 bits become 32."""
    own = _stored_bytes(model.folder) * (2 if precision == "float32" else 1)
    others: Iterable[Path] = [*([model.draft] if model.draft else []), *model.adapters.values()]
    return own + sum(map(_stored_bytes, others))


def _stored_bytes(source: Path) -> int:
    files: Sequence[Path] = [source] if source.is_file() else [each for each in source.iterdir() if each.is_file()]
    kinds = {path.suffix for path in files}
    # A folder may hold the same weights in two forms: one of them is read.
    kind = next((each for each in WEIGHTS if each in kinds), "")
    return sum(path.stat().st_size for path in files if path.suffix == kind)


def _times(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
