"""Settles where a model runs and how much it may hold, from the settings and the checkpoint."""

from typing import Protocol

import torch

from headrace.engine.attention.gather import KEY_TILE
from headrace.engine.attention.kv_cache import KvCache
from headrace.engine.engine_config import EngineConfig
from headrace.engine.host_memory import available_bytes
from headrace.engine.kernels.cpu.storage import Storage
from headrace.engine.models.decoder_config import DecoderConfig
from headrace.engine.quantization.scheme import QuantizationScheme
from headrace.errors.tree import ConfigError

PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
ROUNDED_BITS = {"int8": 8, "int4": 4}
"""Precisions to which plain weights are rounded while they are loaded."""
GPU_KV_SHARE = 0.8
CPU_KV_SHARE = 0.25
"""Of the memory that is free once the weights are loaded. On the CPU other workers want some too."""
UNKNOWN_KV_BYTES = 1 << 30
"""On a system that does not say what is free."""


class CheckpointFacts(Protocol):
    """What the settings are weighed against, for encoders and decoders alike."""

    @property
    def precision(self) -> str: ...

    @property
    def quantization(self) -> QuantizationScheme | None: ...

    @property
    def max_model_len(self) -> int: ...

    @property
    def usual_len(self) -> int: ...


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


def describe_precision(config: EngineConfig, model: CheckpointFacts, dtype: torch.dtype) -> str:
    """How the weights are held, for people."""
    if model.quantization is not None:
        return f"int{model.quantization.bits} ({model.quantization.method})"
    if config.precision in ROUNDED_BITS:
        return str(config.precision)
    return str(dtype).removeprefix("torch.")


def choose_max_len(config: EngineConfig, model: CheckpointFacts) -> int:
    """Longest prompt plus output, in tokens. Raises ConfigError for more than the model was made for.

    Contexts beyond `usual_len` change how a longrope model computes shorter ones too, so they must be asked for.
    """
    if config.max_model_len is not None and config.max_model_len > model.max_model_len:
        raise ConfigError(f"max_model_len is {config.max_model_len}, but the model was made for {model.max_model_len}.")
    return config.max_model_len or model.usual_len


def build_cache(
    config: EngineConfig, model: DecoderConfig, max_len: int, dtype: torch.dtype, device: torch.device
) -> KvCache:
    """A KV cache of as many blocks as are wanted and fit. Raises ConfigError for a block size that does not suit."""
    if KEY_TILE % config.block_size:
        raise ConfigError(f"block_size is {config.block_size}: it must divide {KEY_TILE}.")
    block_bytes = 2 * model.layer_count * config.block_size * model.kv_head_count * model.head_size * dtype.itemsize
    block_count = choose_block_count(config, max_len, block_bytes, device)
    return KvCache(
        model.layer_count, block_count, config.block_size, model.kv_head_count, model.head_size, dtype, device
    )


def choose_block_count(config: EngineConfig, max_len: int, block_bytes: int, device: torch.device) -> int:
    """As many as the settings want and memory allows."""
    wanted = config.max_running_count * -(-max_len // config.block_size)
    return config.block_count or min(wanted, max(1, _kv_cache_bytes(config, device) // block_bytes))


def choose_kv_storage(config: EngineConfig, *, coded: bool) -> Storage:
    """How the fused kernels hold keys and values. Where nothing is asked for: 8 bits if the weights are `coded` in no
    more and nothing need be exact, else fp32, which loses nothing."""
    if config.kv_precision == "auto":
        return Storage.S8 if coded and not config.exact else Storage.F32
    return {"bfloat16": Storage.BF16, "int8": Storage.S8, "fp8": Storage.FP8}.get(config.kv_precision, Storage.F32)


def _kv_cache_bytes(config: EngineConfig, device: torch.device) -> int:
    if config.kv_cache_bytes is not None:
        return config.kv_cache_bytes
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0] * GPU_KV_SHARE)
    free = available_bytes()
    return UNKNOWN_KV_BYTES if free is None else int(free * CPU_KV_SHARE)
