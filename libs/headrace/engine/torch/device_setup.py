"""Chooses device, precision and memory for models on torch, from the settings and the checkpoint."""

import logging
from typing import TYPE_CHECKING

import torch

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.model_limits import ROUNDED_BITS, CheckpointFacts, choose_block_count, host_kv_bytes
from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.kernels.kv_arena import KvArena, KvShape
from headrace.engine.kernels.storage import Storage
from headrace.engine.memory.host_cores import usable_core_count
from headrace.engine.torch.attention.attention_layout import KEY_TILE
from headrace.engine.torch.attention.gathered_attention import GatheredAttention
from headrace.engine.torch.attention.kernel_attention import KernelPagedAttention
from headrace.engine.torch.attention.paged_attention import PagedAttention
from headrace.engine.torch.attention.token_attention import TokenAttention
from headrace.engine.torch.decoder.decoder import Decoder
from headrace.engine.torch.kv.kv_cache import KvCache
from headrace.engine.torch.kv.paged_states import PagedStates
from headrace.engine.torch.kv.paged_storage import choose_paged_storage
from headrace.engine.torch.operators.kernel_operators import KernelOperators
from headrace.engine.torch.operators.operators import Operators
from headrace.engine.torch.operators.single_row_operators import SingleRowOperators
from headrace.errors.tree import ConfigError

if TYPE_CHECKING:
    from headrace.engine.torch.decode_graphs import DecodeGraphs

_log = logging.getLogger(__name__)
PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
KV_STORAGE = {torch.float32: Storage.F32, torch.bfloat16: Storage.BF16, torch.float16: Storage.F16}
LANES = 16
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


def check_kv_precision(
    config: EngineConfig, model: DecoderConfig, dtype: torch.dtype, device: torch.device, reason: str
) -> None:
    """Raises ConfigError if keys and values cannot be kept as the settings say. `reason` says why the fused kernels do
    not run the model."""
    computed = str(dtype).removeprefix("torch.")
    if config.kv_precision in ("auto", computed):
        return
    paged, other_reason = choose_paged_storage(config, model, dtype, device)
    if paged is None:
        raise ConfigError(
            f"kv_precision is {config.kv_precision!r}, but torch keeps keys and values as it computes, in {computed}, "
            f"which auto means here; the fused kernels cannot run this model: {reason}; nor can those for GPUs: "
            f"{other_reason}"
        )


def settle_threads(config: EngineConfig, operators: Operators) -> None:
    """Sets the number of torch threads for the whole process. With our kernels, torch's threads would only be in the
    way. Without them, one core is left free: if another process holds up one torch thread, all of them wait."""
    usual = max(1, usable_core_count() - 1)
    torch.set_num_threads(1 if isinstance(operators, KernelOperators) else config.thread_count or usual)


def kv_shape(config: EngineConfig, model: DecoderConfig, dtype: torch.dtype, device: torch.device) -> KvShape:
    """Returns the shape of a block of keys and values."""
    paged, _ = choose_paged_storage(config, model, dtype, device)
    sizes = (model.layer_count, model.kv_head_count, model.head_size, config.block_size)
    return KvShape(*sizes, KV_STORAGE[dtype] if paged is None else paged)


def build_attention(
    config: EngineConfig,
    model: DecoderConfig,
    decoder: Decoder,
    operators: Operators,
    max_len: int,
    dtype: torch.dtype,
    device: torch.device,
) -> PagedAttention:
    """Builds attention over a KV cache with as many of the requested blocks as fit, for contexts of up to `max_len`
    tokens. Raises ConfigError for an unsupported block size."""
    shape = kv_shape(config, model, dtype, device)
    paged, reason = choose_paged_storage(config, model, dtype, device)
    block_count = choose_block_count(config, max_len, shape.block_bytes, kv_bytes(config, device))
    heads, layers = decoder.heads, decoder.attentions(max_len)
    if isinstance(operators, KernelOperators):
        _check_block_size(config, config.block_size % LANES, f"be a multiple of {LANES}")
        return KernelPagedAttention(operators.context, heads, layers, KvArena(shape, block_count))
    if paged is not None:
        # Imports Triton, which only GPUs need.
        from headrace.engine.torch.attention.triton_attention import TritonAttention

        return TritonAttention(heads, layers, PagedStates(shape, block_count, device), device)
    _log.info("attention gathers keys and values", extra={"reason": reason})
    _check_block_size(config, KEY_TILE % config.block_size, f"divide {KEY_TILE}")
    cache = KvCache(
        model.layer_count, block_count, config.block_size, model.kv_head_count, model.head_size, dtype, device
    )
    if isinstance(operators, SingleRowOperators):
        return TokenAttention(heads, layers, cache)
    return GatheredAttention(heads, layers, cache, device)


def build_graphs(
    config: EngineConfig,
    model: DecoderConfig,
    decoder: Decoder,
    attention: PagedAttention,
    dtype: torch.dtype,
    device: torch.device,
) -> "DecodeGraphs | None":
    """Builds what replays steps of decodes, if the settings ask for it. Raises ConfigError for a model that cannot be
    replayed."""
    if not config.cuda_graphs:
        return None
    if model.experts is not None:
        raise ConfigError("cuda_graphs is on, but the host routes this model's experts; turn it off")
    paged, reason = choose_paged_storage(config, model, dtype, device)
    if paged is None:
        raise ConfigError(f"cuda_graphs is on, but the kernels in Triton do not attend here: {reason}; turn it off")
    # Both import Triton, which only GPUs need.
    from headrace.engine.torch.attention.triton_attention import TritonAttention
    from headrace.engine.torch.decode_graphs import DecodeGraphs

    return DecodeGraphs(decoder, attention, device) if isinstance(attention, TritonAttention) else None


def _check_block_size(config: EngineConfig, remainder: int, rule: str) -> None:
    if remainder:
        raise ConfigError(f"block_size is {config.block_size}: it must {rule}")


def kv_bytes(config: EngineConfig, device: torch.device) -> int:
    """Returns the size limit of a KV cache on a device, in bytes."""
    if not config.kv_cache_bytes and device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0] * GPU_KV_SHARE)
    return host_kv_bytes(config)
