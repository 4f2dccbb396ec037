"""Attention of a decoder before its memory is allocated, and the plans for torch and for the CPU kernels."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.kernels.context import KernelContext
from headrace.engine.kernels.kv_arena import KvArena, KvShape
from headrace.engine.kernels.storage import Storage
from headrace.engine.torch.attention.attention_layout import KEY_TILE
from headrace.engine.torch.attention.gathered_attention import GatheredAttention
from headrace.engine.torch.attention.kernel_attention import KernelPagedAttention
from headrace.engine.torch.attention.paged_attention import HeadShape, LayerAttention, PagedAttention
from headrace.engine.torch.attention.token_attention import TokenAttention
from headrace.engine.torch.kv.kv_cache import KvCache
from headrace.errors.tree import ConfigError

KV_STORAGE = {torch.float32: Storage.F32, torch.bfloat16: Storage.BF16, torch.float16: Storage.F16}
LANES = 16


@dataclass(frozen=True, slots=True)
class AttentionPlan:
    """Shape of a decoder's KV cache, and the attention that is built over it once the weights are read."""

    shapes: tuple[KvShape, ...]
    """Shapes of a block of keys and values: one of the layers that have heads of the same sizes."""
    build: Callable[[HeadShape, Sequence[LayerAttention], int], PagedAttention]
    """Builds attention for the layers of a model, over a cache of so many blocks. Raises ConfigError for a block size
    that it does not have."""

    @property
    def block_bytes(self) -> int:
        """Size of a block of all layers, in bytes."""
        return sum(shape.block_bytes for shape in self.shapes)


def kv_shape(config: EngineConfig, model: DecoderConfig, storage: Storage) -> KvShape:
    """Returns the shape of a block of keys and values in a number format."""
    return KvShape(len(model.kv_layers), model.kv_head_count, model.head_size, config.block_size, storage)


def plan_gathered(
    config: EngineConfig, model: DecoderConfig, dtype: torch.dtype, device: torch.device
) -> AttentionPlan:
    """Plans attention through torch, with many tokens per call."""

    def build(heads: HeadShape, layers: Sequence[LayerAttention], block_count: int) -> PagedAttention:
        return GatheredAttention(heads, layers, _cache(config, model, block_count, dtype, device), device)

    return AttentionPlan((kv_shape(config, model, KV_STORAGE[dtype]),), build)


def plan_by_token(
    config: EngineConfig, model: DecoderConfig, dtype: torch.dtype, device: torch.device
) -> AttentionPlan:
    """Plans attention through torch on a CPU, one token at a time."""

    def build(heads: HeadShape, layers: Sequence[LayerAttention], block_count: int) -> PagedAttention:
        return TokenAttention(heads, layers, _cache(config, model, block_count, dtype, device))

    return AttentionPlan((kv_shape(config, model, KV_STORAGE[dtype]),), build)


def plan_on_kernels(
    config: EngineConfig, model: DecoderConfig, dtype: torch.dtype, context: KernelContext
) -> AttentionPlan:
    """Plans attention through the CPU kernels."""
    shape = kv_shape(config, model, KV_STORAGE[dtype])

    def build(heads: HeadShape, layers: Sequence[LayerAttention], block_count: int) -> PagedAttention:
        _check_block_size(config, config.block_size % LANES, f"be a multiple of {LANES}")
        return KernelPagedAttention(context, heads, layers, KvArena(shape, block_count))

    return AttentionPlan((shape,), build)


def _cache(
    config: EngineConfig, model: DecoderConfig, block_count: int, dtype: torch.dtype, device: torch.device
) -> KvCache:
    _check_block_size(config, KEY_TILE % config.block_size, f"divide {KEY_TILE}")
    return KvCache(
        len(model.kv_layers), block_count, config.block_size, model.kv_head_count, model.head_size, dtype, device
    )


def _check_block_size(config: EngineConfig, remainder: int, rule: str) -> None:
    if remainder:
        raise ConfigError(f"block_size is {config.block_size}: it must {rule}")
