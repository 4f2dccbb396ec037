"""Engines of one process: one model that is always awake, or models under a model manager."""

import math
import sys
from collections.abc import Callable, Mapping
from functools import partial

from headrace.engine.contract.engine import Engine
from headrace.engine.memory.host_memory import available_bytes
from headrace.engine.residency.model_manager import ModelManager
from headrace.engine.residency.policy.residency_limits import ResidencyLimits
from headrace.engine.residency.resident_status import ResidentStatus
from headrace.errors import ConfigError, HeadraceError, InternalError, NotFound, Unsupported
from headrace.worker.config import WorkerSettings
from headrace.worker.hosting.worker_ids import worker_ids
from headrace.worker.load_engine import load_engine
from headrace.worker.stepping.canary import prove

AWAKE_SHARE, ASLEEP_SHARE = 0.5, 0.25
"""Shares of the free memory of the host for models awake and asleep where the settings do not say."""
CARD_SHARE = 0.8
"""Share of the free memory of a GPU for models awake there. Steps take theirs beside it."""
UNKNOWN_BYTES = 8 * 1024**3
"""Free memory that is assumed on a system that does not say."""
STOP_SECONDS = 2.0


class EngineHost:
    """Loads what the settings name. With several models, each is known by its own id."""

    def __init__(self, settings: WorkerSettings) -> None:
        """Raises InvalidCheckpoint, Unsupported or ConfigError, and InternalError for one of several models that does
        not work."""
        self._manager: ModelManager | None = None
        self._is_several = bool(settings.models)
        if not (settings.model or settings.models):
            raise ConfigError("setting worker.model is missing: name the model, or several with models", param="model")
        if settings.models:
            limits = _limits(settings)
            kv_bytes = settings.kv_cache_bytes or limits.awake_bytes // (2 * len(settings.models))
            self._manager = ModelManager(partial(_load, settings, kv_bytes), _prove, limits)
            self.engines: Mapping[str, Engine] = self._manager.open(settings.models, settings.pinned)
            self.ids = worker_ids(settings.service_id, settings.models)
        elif settings.keep_alive_seconds:
            self._manager = ModelManager(partial(_load_only, settings), _prove, _idle_limits(settings))
            self.engines = self._manager.open([settings.model], settings.pinned)
            self.ids = {settings.model: settings.service_id}
        else:
            self.engines = {settings.model: load_engine(settings)}
            self.ids = {settings.model: settings.service_id}

    @property
    def is_proved(self) -> bool:
        """Whether each model has already generated something."""
        return self._manager is not None

    @property
    def members(self) -> dict[str, str]:
        """Model of each worker by its id. Empty: the process is one worker."""
        return {} if not self._is_several else {worker_id: model for model, worker_id in self.ids.items()}

    def resident(self, model: str) -> ResidentStatus:
        """Returns the state of a model. From any thread."""
        return ResidentStatus() if self._manager is None else self._manager.status(model)

    def pin(self, model: str, *, is_pinned: bool) -> None:
        """Has a model stay awake from now on, or take turns. From any thread. Raises NotFound, Unsupported where models
        never leave, and ConfigError where it or another one could then never be awake."""
        if model not in self.engines:
            raise NotFound(f"this worker has no model {model[:96]!r}; it has: {', '.join(self.engines)}")
        if self._manager is None:
            raise Unsupported(
                f"{model} is always awake: models are pinned that take turns in one worker (headrace up --one-worker), "
                "or that leave memory when idle (keep_alive_seconds)"
            )
        self._manager.pin(model, is_pinned=is_pinned)

    def start(self, on_change: Callable[[str], None], on_crash: Callable[[BaseException], None]) -> None:
        """Starts to move models. `on_change` receives the name of each that moved; both are called from any thread."""
        if self._manager is not None:
            self._manager.start(on_change, on_crash)

    def stop(self) -> None:
        """Stops moving models, and closes the sleeping ones."""
        if self._manager is not None:
            self._manager.stop(STOP_SECONDS)


def _limits(settings: WorkerSettings) -> ResidencyLimits:
    free = available_bytes() or UNKNOWN_BYTES
    return ResidencyLimits(
        awake_bytes=settings.awake_bytes or _awake_bytes(settings.device, free),
        asleep_bytes=int(free * ASLEEP_SHARE) if settings.asleep_bytes is None else settings.asleep_bytes,
        stay_seconds=settings.stay_seconds,
        patience_seconds=settings.swap_patience_seconds,
        idle_seconds=settings.keep_alive_seconds or math.inf,
    )


def _awake_bytes(device: str, host_bytes: int) -> int:
    if device.partition(":")[0] == "cpu":
        return int(host_bytes * AWAKE_SHARE)
    # Imports torch, which CPUs do without.
    from headrace.engine.torch.device.device_memory import free_bytes_of

    return int(free_bytes_of(device) * CARD_SHARE)


def _idle_limits(settings: WorkerSettings) -> ResidencyLimits:
    """Returns the limits of an only model, which shares its memory with no other."""
    return ResidencyLimits(sys.maxsize, sys.maxsize, idle_seconds=settings.keep_alive_seconds)


def _load_only(settings: WorkerSettings, _model: str, share: float) -> Engine:
    """Loads the only model, with a share of its KV cache where the settings say how large that is."""
    chosen = {
        "kv_cache_bytes": int(settings.kv_cache_bytes * share),
        "block_count": int(settings.block_count * share),
    }
    return load_engine(settings.model_copy(update=chosen))


def _load(settings: WorkerSettings, kv_bytes: int, model: str, share: float) -> Engine:
    """Loads one of several models. `kv_bytes`: usual size of its KV cache, of which it gets a share."""
    chosen = {
        "model": model,
        "folder": settings.models[model],
        "models": {},
        "pinned": (),
        "kv_cache_bytes": 0 if settings.block_count else max(1, int(kv_bytes * share)),
        "block_count": int(settings.block_count * share),
    }
    return load_engine(settings.model_copy(update=chosen))


def _prove(model: str, engine: Engine) -> None:
    try:
        prove(engine, engine.step)
    except HeadraceError as error:
        raise InternalError(f"model {model} does not work, so the worker takes no requests: {error}") from error
