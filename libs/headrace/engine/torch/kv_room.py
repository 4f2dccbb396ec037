"""Measurement of the memory that the steps of a model leave for its KV cache."""

from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.contract.state_slots import NO_SLOTS
from headrace.engine.torch.backends.backend import Backend
from headrace.engine.torch.backends.decoder_memory import build_memory
from headrace.engine.torch.decoder.decoder import Decoder
from headrace.engine.torch.device.device_memory import DeviceMemory
from headrace.engine.torch.trial_steps import largest_steps, run_trial

KV_SHARE = 0.9
"""Share of the memory that weights and steps leave that goes to the KV cache. The rest is for the sampler, captured
graphs, and blocks of the allocator that fit nothing."""


def measure_kv_room(
    memory: DeviceMemory, config: EngineConfig, backend: Backend, decoder: Decoder, max_len: int
) -> int:
    """Returns the bytes for KV blocks beside the largest steps of a decoder whose weights are loaded. Computes those
    steps, over a KV cache of a single block."""
    attention = build_memory(backend.attention, decoder, max_len, 1, NO_SLOTS, backend.device)

    def compute() -> None:
        for arrays in largest_steps(config, max_len):
            run_trial(decoder, attention, arrays, backend.device)

    peak = memory.peak_bytes(compute)
    attention.release()
    return max(0, int((memory.free_bytes() - peak) * KV_SHARE))
