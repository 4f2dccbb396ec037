"""Names of a platform's processes: known before any of them has an address."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from headrace.launch.platform_spec import ModelSource, PlatformSpec

NATS_NAME = "nats"
SERVICE_ROLES = ("gateway", "tokenizer", "scheduler", "cache", "worker")
"""Roles of all processes but NATS."""


@dataclass(frozen=True, slots=True)
class PlannedWorker:
    """A worker, and its share of the work."""

    name: str
    model: ModelSource | None
    """Its model. None: it serves all of them."""
    part: Literal["", "prefill", "decode"] = ""
    """Part in the work on prompts. Empty leaves it to the worker's settings."""


@dataclass(frozen=True, slots=True)
class Roster:
    """Names of the services' processes, by role."""

    tokenizers: tuple[str, ...]
    schedulers: tuple[str, ...]
    caches: tuple[str, ...]
    workers: tuple[PlannedWorker, ...]
    gateways: tuple[str, ...]

    @classmethod
    def of(cls, spec: PlatformSpec) -> "Roster":
        """Names the processes of a platform."""
        return cls(
            tokenizers=_names("tokenizer", spec.tokenizers),
            schedulers=_names("scheduler", spec.schedulers),
            caches=_names("cache", spec.caches),
            workers=_workers(spec),
            gateways=_names("gateway", spec.gateways),
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all processes but NATS."""
        workers = (worker.name for worker in self.workers)
        return (*self.gateways, *self.tokenizers, *self.schedulers, *self.caches, *workers)

    @property
    def numbers(self) -> dict[str, tuple[int, ...]]:
        """Numbers of the workers of each model that has some of its own."""
        found: dict[str, tuple[int, ...]] = {}
        for worker in self.workers:
            if worker.model is not None:
                found[worker.model.name] = (*found.get(worker.model.name, ()), number_of(worker.name))
        return found


def number_of(name: str) -> int:
    """Returns the number of a process among those of its role, which its name ends with unless it is 0."""
    return int(name.partition("-")[2] or 0)


def _names(role: str, count: int) -> tuple[str, ...]:
    """Names the processes of a role. The first is called like the role, as where there is only one."""
    return (role, *(f"{role}-{index}" for index in range(1, count)))


def _workers(spec: PlatformSpec) -> tuple[PlannedWorker, ...]:
    if spec.shared_worker:
        return tuple(PlannedWorker(f"worker-{index}", None) for index in range(spec.replicas))
    usual: Literal["", "decode"] = "decode" if spec.prefill_workers else ""
    parts: list[tuple[ModelSource, Literal["", "prefill", "decode"]]] = []
    parts += [(model, usual) for model in spec.models for _ in range(spec.replicas_of(model))]
    parts += [(model, "prefill") for model in spec.models for _ in range(spec.prefill_workers)]
    numbers = _numbers([model for model, _ in parts])
    return tuple(PlannedWorker(f"worker-{n}", model, part) for n, (model, part) in zip(numbers, parts, strict=True))


def _numbers(models: Sequence[ModelSource]) -> Iterator[int]:
    """Yields the number of each worker, by their models: its place, or the next of its model."""
    chosen = {model.name: iter(model.worker_numbers or ()) for model in models}
    for index, model in enumerate(models):
        yield index if model.worker_numbers is None else next(chosen[model.name])
