"""Loads a decoder in the form that runs fastest here: fused kernels where they can, else torch."""

import logging
from pathlib import Path

from headrace.engine.engine_config import EngineConfig
from headrace.engine.load_fused import can_run_fused, load_fused
from headrace.engine.loaded_model import LoadedModel
from headrace.engine.models.decoder_config import DecoderConfig

_log = logging.getLogger(__name__)


def load_runner(source: Path, model: DecoderConfig, config: EngineConfig, max_len: int) -> LoadedModel:
    """Loads a Hugging Face folder or a GGUF file. Raises InvalidCheckpoint, Unsupported or ConfigError."""
    fits, reason = can_run_fused(model, config)
    if fits:
        return load_fused(source, model, config, max_len)
    # Imports torch, which the fused kernels can do without.
    from headrace.engine.load_torch import load_torch

    _log.info("the model runs through torch", extra={"reason": reason})
    return load_torch(source, model, config, max_len, reason)
