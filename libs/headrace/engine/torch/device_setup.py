"""Chooses device, precision and memory for models on torch, from the settings and the checkpoint."""

import torch

from headrace.engine.checkpoints.model_limits import ROUNDED_BITS, CheckpointFacts, choose_block_count, host_kv_bytes
from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.contract.state_slots import NO_SLOTS, StateSlots
from headrace.engine.memory.host_cores import usable_core_count
from headrace.engine.torch.attention.paged_attention import PagedAttention
from headrace.engine.torch.backends.backend import Backend
from headrace.engine.torch.backends.decoder_memory import build_memory
from headrace.engine.torch.decoder.decoder import Decoder
from headrace.engine.torch.decoder.states.slot_choice import choose_slots
from headrace.engine.torch.decoder.states.state_arena import slot_bytes
from headrace.engine.torch.device.device_memory import NOTHING_LATER, CudaMemory, LaterMemory
from headrace.engine.torch.kv_room import measure_kv_room
from headrace.engine.torch.operators.kernel_operators import KernelOperators
from headrace.engine.torch.operators.operators import Operators
from headrace.errors.tree import ConfigError

PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
GPU_KV_SHARE = 0.8
"""Share of the GPU memory left after loading the weights that goes to the KV cache in a group, where no rank computes
a step alone."""


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


def build_attention(
    config: EngineConfig, backend: Backend, decoder: Decoder, max_len: int, later: LaterMemory = NOTHING_LATER
) -> PagedAttention:
    """Builds attention over a KV cache with as many of the requested blocks as fit, for contexts of up to `max_len`
    tokens. Raises ConfigError for an unsupported block size, and where the GPU has no memory left for it."""
    plan = backend.attention
    room = kv_bytes(config, backend.device)
    if backend.device.type == "cuda" and not (config.kv_cache_bytes or config.block_count):
        room = measure_kv_room(CudaMemory(backend.device), config, backend, decoder, max_len)
    slots = _state_slots(config, decoder, room)
    left = room if decoder.states is None else room - slots.count * slot_bytes(decoder.states)
    count = count_blocks(config, max_len, plan.block_bytes, left, later)
    return build_memory(plan, decoder, max_len, count, slots, backend.device)


def _state_slots(config: EngineConfig, decoder: Decoder, room: int) -> StateSlots:
    return NO_SLOTS if decoder.states is None else choose_slots(config, slot_bytes(decoder.states), room)


def count_blocks(config: EngineConfig, max_len: int, block_bytes: int, room: int, later: LaterMemory) -> int:
    """Returns how many KV blocks fit `room` bytes, beside the weights of a draft model and as many blocks of it. Raises
    ConfigError if none does."""
    each, left = block_bytes + later.block_bytes, room - later.weight_bytes
    if left < each and not config.block_count:
        raise ConfigError(
            f"the device has {max(0, left) >> 20} MiB left for keys and values, and a block of {config.block_size} "
            f"tokens takes {each >> 10} KiB: lower max_step_token_count or max_running_count, choose a smaller or more "
            "quantized model, or a larger device"
        )
    return choose_block_count(config, max_len, each, left)


def kv_bytes(config: EngineConfig, device: torch.device) -> int:
    """Returns the size limit of a KV cache on a device, in bytes, where its steps have not been measured."""
    if not config.kv_cache_bytes and device.type == "cuda":
        return int(CudaMemory(device).free_bytes() * GPU_KV_SHARE)
    return host_kv_bytes(config)
