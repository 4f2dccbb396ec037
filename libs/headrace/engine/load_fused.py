"""Loads a decoder whose steps are calls of the fused kernels."""

import os
from pathlib import Path

from headrace.engine.engine_config import EngineConfig
from headrace.engine.fused_runner import FusedRunner
from headrace.engine.held_memory import HeldMemory
from headrace.engine.kernels.cpu.kernel_choice import choose_kernels
from headrace.engine.kernels.cpu.kv_arena import KvArena, KvShape
from headrace.engine.kernels.cpu.memory import give_back_freed
from headrace.engine.kernels.cpu.shared_context import shared_context
from headrace.engine.loaded_model import LoadedModel
from headrace.engine.models.decoder_config import DecoderConfig
from headrace.engine.models.fused_decoder import LANES, FusedDecoder, can_fuse
from headrace.engine.models.fused_weights import FusedWeights
from headrace.engine.models.fused_weights_cache import FusedWeightsCache
from headrace.engine.models.fused_weights_key import packed_path
from headrace.engine.placement import (
    ROUNDED_BITS,
    choose_block_count,
    choose_kv_storage,
    describe_precision,
    host_kv_bytes,
)

KERNEL_PRECISIONS = (None, "float32", *ROUNDED_BITS)


def can_run_fused(model: DecoderConfig, config: EngineConfig) -> tuple[bool, str]:
    """Whether the fused kernels can run `model` as `config` wants it, and why not."""
    if config.kernels == "torch":
        return False, "the settings ask for torch"
    if config.adapters:
        return False, "there are adapters"
    if config.device.partition(":")[0] != "cpu":
        return False, f"the device is {config.device}"
    if config.precision not in KERNEL_PRECISIONS:
        return False, f"the settings ask for arithmetic in {config.precision}"
    if config.block_size % LANES:
        return False, f"blocks of {config.block_size} tokens are not a multiple of {LANES}"
    return can_fuse(model)


def load_fused(source: Path, model: DecoderConfig, config: EngineConfig, max_len: int) -> LoadedModel:
    """Loads a decoder for the fused kernels. Raises InvalidCheckpoint or Unsupported."""
    weights = _load_weights(source, model, config)
    decoder = FusedDecoder(model, max_len, weights, exact=config.exact)
    storage = choose_kv_storage(config, coded=weights.is_coded)
    shape = KvShape(model.layer_count, model.kv_head_count, model.head_size, config.block_size, storage)
    block_count = choose_block_count(config, max_len, shape.block_bytes, host_kv_bytes(config))
    context = shared_context(config.thread_count or len(os.sched_getaffinity(0)))
    kernels = choose_kernels(context, weights.matrices["0.gate_up"], exact=config.exact)
    decoder.move_to_huge_pages()
    runner = FusedRunner(decoder, KvArena(shape, block_count), context, kernels)
    precision = describe_precision(config, model, "float32")
    memory = HeldMemory(weights.byte_count, block_count * shape.block_bytes)
    return LoadedModel(runner, block_count, weights.parameter_count, "cpu", precision, memory)


def _load_weights(source: Path, model: DecoderConfig, config: EngineConfig) -> FusedWeights:
    """Loads the weights from the file that an earlier start left, if there is one, else from the checkpoint."""
    bits = ROUNDED_BITS.get(config.precision or "")
    if config.packed_cache is None:
        return _read_weights(source, model, bits, exact=config.exact)
    cache = FusedWeightsCache(config.packed_cache, config.packed_cache_bytes)
    path = packed_path(config.packed_cache, source, model, bits=bits, exact=config.exact)
    weights = cache.load(path, model)
    if weights is None:
        weights = _read_weights(source, model, bits, exact=config.exact)
        cache.save(path, weights)
    return weights


def _read_weights(source: Path, model: DecoderConfig, bits: int | None, *, exact: bool) -> FusedWeights:
    # Imports torch, which takes more than a second and 200 MB: a start with packed weights needs none of it.
    from headrace.engine.models.fused_weights_reader import read_fused_weights

    weights = read_fused_weights(source, model, bits, exact=exact)
    give_back_freed()
    return weights
