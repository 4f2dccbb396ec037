"""Loads a decoder in the form that runs fastest here: fused kernels where they can, else torch."""

import logging
from pathlib import Path

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.contract.overlap_refusal import refuse_overlap
from headrace.engine.cpu.load import can_run_on_cpu, load_cpu
from headrace.engine.loading.memory_placement import place_memory
from headrace.engine.loading.required_torch import require_torch
from headrace.engine.step.loaded_model import LoadedModel

_log = logging.getLogger(__name__)


def load_runner(source: Path, model: DecoderConfig, config: EngineConfig, max_len: int) -> LoadedModel:
    """Loads a Hugging Face folder or a GGUF file. Raises InvalidCheckpoint, Unsupported or ConfigError."""
    place_memory(config)
    if config.tensor_parallel_count * config.pipeline_parallel_count > 1:
        refuse_overlap(config, "several processes share the model, which wait for each other in each step")
        require_torch("several processes share it")
        from headrace.engine.parallel.load_group import load_group

        return load_group(source, model, config)
    fits, reason = can_run_on_cpu(model, config)
    if fits:
        refuse_overlap(config, "the fused kernels of the CPU compute the model, and leave no core idle")
        return load_cpu(source, model, config, max_len)
    require_torch(reason)
    # All import torch, which the fused kernels can do without.
    from headrace.engine.gpu.choose_backend import choose_backend
    from headrace.engine.gpu.draft_memory import draft_memory
    from headrace.engine.torch.device.device_memory import NOTHING_LATER
    from headrace.engine.torch.device_setup import choose_device
    from headrace.engine.torch.load import load_torch

    _log.info("the model runs through torch", extra={"reason": reason})
    device = choose_device(config)
    backend = choose_backend(config, model, device, reason, config.thread_count)
    later = draft_memory(config, device) if device.type == "cuda" else NOTHING_LATER
    return load_torch(source, model, config, max_len, backend, later)
