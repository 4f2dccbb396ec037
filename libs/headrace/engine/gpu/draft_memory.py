"""Memory that a draft model will take beside the model that it drafts for."""

import torch

from headrace.engine.checkpoints.draft_heads.eagle_config import is_draft_head
from headrace.engine.checkpoints.layout.model_shape import model_shape
from headrace.engine.checkpoints.model_config import read_model_config
from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.gpu.choose_backend import choose_backend
from headrace.engine.torch.device.device_memory import NOTHING_LATER, LaterMemory


def draft_memory(config: EngineConfig, device: torch.device) -> LaterMemory:
    """Returns what the settings' draft model takes on a device: at most as many bytes of weights as if all were plain,
    and those of a KV block. Nothing without one. Raises InvalidCheckpoint, Unsupported or ConfigError."""
    if config.draft_folder is None or config.speculation == "off" or is_draft_head(config.draft_folder):
        return NOTHING_LATER
    model = read_model_config(config.draft_folder)
    backend = choose_backend(config, model, device, "it drafts", config.thread_count)
    weights = model_shape(model).parameter_count * backend.dtype.itemsize
    return LaterMemory(weights, backend.attention.block_bytes)
