"""Makes the engine that the settings ask for. `sim` needs neither weights nor the libraries that read them."""

from pathlib import Path

from headrace.engine.contract.engine import Engine
from headrace.engine.engines.sim import SimConfig, SimEngine
from headrace.errors import ConfigError
from headrace.worker.config import WorkerSettings


def load_engine(settings: WorkerSettings) -> Engine:
    """Loads the model. Raises InvalidCheckpoint, Unsupported or ConfigError."""
    match settings.engine:
        case "sim":
            return _sim_engine(settings)
        case "vllm":
            return _vllm_engine(settings)
        case "model":
            return _model_engine(settings)


def _sim_engine(settings: WorkerSettings) -> Engine:
    defaults = SimConfig()
    return SimEngine(
        SimConfig(
            vocabulary_size=settings.sim_vocabulary_size,
            max_model_length=settings.max_model_length or defaults.max_model_length,
            long_context=settings.long_context,
            block_size=settings.block_size,
            block_count=settings.block_count or defaults.block_count,
            max_running_count=settings.max_running_count,
            max_step_token_count=settings.max_step_token_count,
            max_step_seconds=settings.max_step_seconds,
            prefix_cache=settings.prefix_cache,
            adapters=tuple(settings.adapters),
            base_seconds=settings.sim_base_seconds,
            prefill_seconds_per_token=settings.sim_prefill_seconds_per_token,
            decode_seconds_per_sequence=settings.sim_decode_seconds_per_sequence,
        )
    )


def _vllm_engine(settings: WorkerSettings) -> Engine:
    from headrace.engine.vllm.load_vllm import load_vllm_engine

    return load_vllm_engine(_folder(settings), settings, settings.vllm_arguments)


def _model_engine(settings: WorkerSettings) -> Engine:
    from headrace.engine.loading.load_engine import load_engine as load_checkpoint

    return load_checkpoint(_folder(settings), settings)


def _folder(settings: WorkerSettings) -> Path:
    if settings.folder is None:
        raise ConfigError("setting worker.folder is missing: only the sim engine needs no checkpoint", param="folder")
    return settings.folder
