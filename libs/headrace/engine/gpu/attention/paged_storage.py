"""Choice of how the kernels for GPUs keep keys and values."""

import torch

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.layout.attention_parts import attention_parts
from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.gpu.attention.paged_states import DTYPES
from headrace.engine.gpu.operators.triton_use import can_use_triton
from headrace.engine.kernels.storage import Storage
from headrace.engine.triton.attention_problem import AttentionProblem
from headrace.engine.triton.kernel_registry import can_implement

NAMED = {"float32": Storage.F32, "bfloat16": Storage.BF16, "int8": Storage.S8, "fp8": Storage.FP8}


def choose_paged_storage(
    config: EngineConfig, model: DecoderConfig, dtype: torch.dtype, device: torch.device
) -> tuple[Storage | None, str]:
    """Returns the format that the settings ask for, or as the model computes in `dtype`; or None, and the reason why
    those kernels do not attend."""
    fits, reason = can_use_triton(device, config.kernels)
    if not fits:
        return None, reason
    computed = next(storage for storage, kept in DTYPES.items() if kept == dtype)
    storage = NAMED.get(config.kv_precision, computed)
    for part in attention_parts(model):
        shape = model.head_count, part.config.kv_head_count, part.config.head_size
        fits, reason = can_implement(AttentionProblem(*shape, DTYPES[storage], dtype, device))
        if not fits:
            return None, reason
    return storage, reason
