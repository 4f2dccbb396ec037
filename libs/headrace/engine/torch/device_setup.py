"""Chooses device, precision and memory for models on torch, from the settings and the checkpoint."""

import torch

from headrace.engine.checkpoints.model_limits import ROUNDED_BITS, CheckpointFacts, choose_block_count, host_kv_bytes
from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.memory.host_cores import usable_core_count
from headrace.engine.torch.attention.paged_attention import PagedAttention
from headrace.engine.torch.backends.backend import Backend
from headrace.engine.torch.decoder.decoder import Decoder
from headrace.engine.torch.operators.kernel_operators import KernelOperators
from headrace.engine.torch.operators.operators import Operators
from headrace.errors.tree import ConfigError

PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
GPU_KV_SHARE = 0.8
"""Share of the GPU memory left after loading the weights that goes to the KV cache."""


def choose_device(config: EngineConfig) -> torch.device:
    """Returns the device that the settings name. Raises ConfigError if it does not exist."""
    try:
        device = torch.device(config.device)
    except RuntimeError as error:
        raise ConfigError(f"device is {config.device!r}: torch does not know it") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError(f"device is {config.device!r}, but torch sees no CUDA device here")
    return device


def choose_precision(config: EngineConfig, model: CheckpointFacts, device: torch.device) -> torch.dtype:
    """Chooses the dtype of activations and KV. Raises ConfigError for an unknown precision."""
    usual = "float32" if device.type == "cpu" else model.precision
    name = usual if config.precision in ("auto", *ROUNDED_BITS) else config.precision
    if name not in PRECISIONS:
        known = ", ".join((*PRECISIONS, *ROUNDED_BITS))
        raise ConfigError(f"precision is {name!r}: it must be one of {known}")
    return PRECISIONS[name]


def settle_threads(config: EngineConfig, operators: Operators) -> None:
    """Sets the number of torch threads for the whole process. With our kernels, torch's threads would only be in the
    way. Without them, one core is left free: if another process holds up one torch thread, all of them wait."""
    usual = max(1, usable_core_count() - 1)
    torch.set_num_threads(1 if isinstance(operators, KernelOperators) else config.thread_count or usual)


def build_attention(config: EngineConfig, backend: Backend, decoder: Decoder, max_len: int) -> PagedAttention:
    """Builds attention over a KV cache with as many of the requested blocks as fit, for contexts of up to `max_len`
    tokens. Raises ConfigError for an unsupported block size."""
    plan = backend.attention
    block_count = choose_block_count(config, max_len, plan.shape.block_bytes, kv_bytes(config, backend.device))
    return plan.build(decoder.heads, decoder.attentions(max_len), block_count)


def kv_bytes(config: EngineConfig, device: torch.device) -> int:
    """Returns the size limit of a KV cache on a device, in bytes."""
    if not config.kv_cache_bytes and device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0] * GPU_KV_SHARE)
    return host_kv_bytes(config)
