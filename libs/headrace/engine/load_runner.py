"""Loads a decoder in the form that runs fastest here: fused kernels where they can, else torch."""

import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch

from headrace.engine.adapters.adapter_set import AdapterSet
from headrace.engine.engine_config import EngineConfig
from headrace.engine.fused_runner import FusedRunner
from headrace.engine.held_memory import HeldMemory
from headrace.engine.kernels.cpu.kv_arena import KvArena, block_bytes
from headrace.engine.kernels.cpu.memory import give_back_freed
from headrace.engine.kernels.cpu.shared_context import shared_context
from headrace.engine.loader.weight_record import WeightRecord
from headrace.engine.loader.weight_source import open_weights
from headrace.engine.model_runner import ModelRunner
from headrace.engine.models.decoder import Decoder
from headrace.engine.models.decoder_config import DecoderConfig
from headrace.engine.models.fused_decoder import LANES, FusedDecoder, can_fuse
from headrace.engine.models.fused_weights import FusedWeights, read_fused_weights
from headrace.engine.models.fused_weights_file import load_packed, packed_path, save_packed
from headrace.engine.placement import (
    ROUNDED_BITS,
    build_cache,
    choose_block_count,
    choose_device,
    choose_kv_storage,
    choose_precision,
    describe_precision,
)
from headrace.engine.step_logits import StepLogits
from headrace.engine.step_plan import StepPlan
from headrace.errors.tree import ConfigError

_log = logging.getLogger(__name__)


class Runner(Protocol):
    """A model with its KV cache."""

    def run(self, plan: StepPlan) -> StepLogits:
        """Computes all chunks, writes their KV and returns the logits that the plan wants, until the next call."""
        ...

    def clear(self, blocks: list[int]) -> None:
        """Zeroes the KV of blocks whose content is not to be trusted."""
        ...

    def sleep(self) -> None:
        """Gives the memory of the KV cache back. Nothing can be run until `wake`."""
        ...

    def wake(self) -> None:
        """Takes memory for the KV cache again. It is empty."""
        ...


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model that is ready to run."""

    runner: Runner
    block_count: int
    parameter_count: int
    device: str
    precision: str
    """How the weights are held, for people."""
    memory: HeldMemory


def load_runner(source: Path, model: DecoderConfig, config: EngineConfig, max_len: int) -> LoadedModel:
    """Loads a Hugging Face folder or a GGUF file. Raises InvalidCheckpoint, Unsupported or ConfigError."""
    device = choose_device(config)
    dtype = choose_precision(config, model, device)
    fits, reason = can_run_fused(model, config)
    if fits:
        return _load_fused(source, model, config, max_len)
    computed = str(dtype).removeprefix("torch.")
    if config.kv_precision not in ("auto", computed):
        raise ConfigError(
            f"kv_precision is {config.kv_precision!r}, but only the fused kernels hold keys and values in another type "
            f"than they compute with, and they cannot run this model: {reason}; use auto, which is {computed} here."
        )
    _log.info("the model runs through torch", extra={"reason": reason})
    return _load_torch(source, model, config, max_len, device, dtype)


def can_run_fused(model: DecoderConfig, config: EngineConfig) -> tuple[bool, str]:
    """Whether the fused kernels can run `model` as `config` wants it, and why not."""
    if config.kernels == "torch":
        return False, "the settings ask for torch"
    if config.adapters:
        return False, "there are adapters"
    if torch.device(config.device).type != "cpu":
        return False, f"the device is {config.device}"
    if config.precision in ("bfloat16", "float16"):
        return False, f"the settings ask for arithmetic in {config.precision}"
    if config.block_size % LANES:
        return False, f"blocks of {config.block_size} tokens are not a multiple of {LANES}"
    return can_fuse(model)


def _load_fused(source: Path, model: DecoderConfig, config: EngineConfig, max_len: int) -> LoadedModel:
    weights = _fused_weights(source, model, config)
    decoder = FusedDecoder(model, max_len, weights, exact=config.exact)
    storage = choose_kv_storage(config, coded=weights.is_coded)
    layers, heads, head_size = model.layer_count, model.kv_head_count, model.head_size
    bytes_per_block = block_bytes(storage, layers, heads, head_size, config.block_size)
    block_count = choose_block_count(config, max_len, bytes_per_block, torch.device("cpu"))
    arena = KvArena(layers, block_count, config.block_size, heads, head_size, storage)
    # torch is left with sampling: more threads of its own would only spin beside those of the kernels.
    torch.set_num_threads(1)
    context = shared_context(config.thread_count or len(os.sched_getaffinity(0)))
    precision = describe_precision(config, model, torch.float32)
    runner = FusedRunner(decoder, arena, context)
    memory = HeldMemory(weights.byte_count, block_count * bytes_per_block)
    return LoadedModel(runner, block_count, weights.parameter_count, "cpu", precision, memory)


@torch.inference_mode()
def _fused_weights(source: Path, model: DecoderConfig, config: EngineConfig) -> FusedWeights:
    """From the files that an earlier start left, if there are any, else from the checkpoint."""
    bits = ROUNDED_BITS.get(config.precision or "")
    folder = config.packed_cache
    path = None if folder is None else packed_path(folder, source, model, bits=bits, exact=config.exact)
    weights = None if path is None else load_packed(path)
    if weights is None:
        weights = read_fused_weights(model, open_weights(source, model.quantization, bits), exact=config.exact)
        if path is not None:
            save_packed(path, weights)
        give_back_freed()
    return weights


def _load_torch(
    source: Path, model: DecoderConfig, config: EngineConfig, max_len: int, device: torch.device, dtype: torch.dtype
) -> LoadedModel:
    torch.set_num_threads(config.thread_count or max(1, len(os.sched_getaffinity(0)) - 1))
    with torch.inference_mode():
        weights = WeightRecord(open_weights(source, model.quantization, ROUNDED_BITS.get(config.precision or "")))
        decoder = Decoder(model, max_len, weights, dtype, device)
        adapters = AdapterSet.load(config.adapters, model, dtype, device) if config.adapters else None
        cache = build_cache(config, model, max_len, dtype, device)
    runner = ModelRunner(decoder, cache, model.head_count, model.kv_head_count, device, adapters)
    precision = describe_precision(config, model, dtype)
    memory = HeldMemory(weights.byte_count, cache.byte_count)
    return LoadedModel(runner, cache.zero_block, decoder.parameter_count, str(device), precision, memory)
