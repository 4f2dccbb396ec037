"""Settles where a model that runs through torch runs and how much it may hold, from the settings and the checkpoint."""

import torch

from headrace.engine.attention.gather import KEY_TILE
from headrace.engine.attention.kv_cache import KvCache
from headrace.engine.engine_config import EngineConfig
from headrace.engine.models.decoder_config import DecoderConfig
from headrace.engine.placement import ROUNDED_BITS, CheckpointFacts, choose_block_count, host_kv_bytes
from headrace.errors.tree import ConfigError

PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
GPU_KV_SHARE = 0.8
"""Of the memory that is free once the weights are loaded."""


def choose_device(config: EngineConfig) -> torch.device:
    """Raises ConfigError for a device that is not there."""
    try:
        device = torch.device(config.device)
    except RuntimeError as error:
        raise ConfigError(f"device is {config.device!r}: torch does not know it.") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError(f"device is {config.device!r}, but torch sees no CUDA device here.")
    return device


def choose_precision(config: EngineConfig, model: CheckpointFacts, device: torch.device) -> torch.dtype:
    """The type that activations and KV have. Raises ConfigError for an unknown precision."""
    usual = "float32" if device.type == "cpu" else model.precision
    name = usual if config.precision in (None, *ROUNDED_BITS) else config.precision
    if name not in PRECISIONS:
        known = ", ".join((*PRECISIONS, *ROUNDED_BITS))
        raise ConfigError(f"precision is {name!r}: it must be one of {known}.")
    return PRECISIONS[name]


def build_cache(
    config: EngineConfig, model: DecoderConfig, max_len: int, dtype: torch.dtype, device: torch.device
) -> KvCache:
    """A KV cache of as many blocks as are wanted and fit. Raises ConfigError for a block size that does not suit."""
    if KEY_TILE % config.block_size:
        raise ConfigError(f"block_size is {config.block_size}: it must divide {KEY_TILE}.")
    block_bytes = 2 * model.layer_count * config.block_size * model.kv_head_count * model.head_size * dtype.itemsize
    block_count = choose_block_count(config, max_len, block_bytes, _kv_bytes(config, device))
    return KvCache(
        model.layer_count, block_count, config.block_size, model.kv_head_count, model.head_size, dtype, device
    )


def _kv_bytes(config: EngineConfig, device: torch.device) -> int:
    if config.kv_cache_bytes is None and device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0] * GPU_KV_SHARE)
    return host_kv_bytes(config)
