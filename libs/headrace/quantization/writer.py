"""Writes quantized modules in the formats of the Hugging Face Hub, so that other engines can read them."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from headrace.engine.checkpoints.formats.awq import ORDER, PER_WORD
from headrace.engine.checkpoints.formats.word_packing import pack
from headrace.engine.checkpoints.weights.quantized_matrix import QuantizedMatrix


def gptq_tensors(name: str, matrix: QuantizedMatrix) -> dict[str, Tensor]:
    """Returns the tensors of module `name` in the first version of the GPTQ layout, which every engine reads."""
    mask = (1 << matrix.bits) - 1
    stored = ((matrix.zeros.to(torch.int16) - 1) & mask).to(torch.uint8)
    in_size = matrix.codes.shape[1]
    return {
        f"{name}.qweight": pack(matrix.codes, matrix.bits).T.contiguous(),
        f"{name}.qzeros": pack(stored.T.contiguous(), matrix.bits),
        f"{name}.scales": matrix.scales.T.half().contiguous(),
        f"{name}.g_idx": (torch.arange(in_size) // matrix.group_size).to(torch.int32),
    }


def awq_tensors(name: str, matrix: QuantizedMatrix) -> dict[str, Tensor]:
    """Returns the tensors of module `name` in AWQ's gemm layout, which is 4-bit only."""
    return {
        f"{name}.qweight": _pack_awq(matrix.codes.T),
        f"{name}.qzeros": _pack_awq(matrix.zeros.T),
        f"{name}.scales": matrix.scales.T.half().contiguous(),
    }


def gptq_config(bits: int, group_size: int, symmetric: bool) -> Mapping[str, Any]:
    """Returns `quantization_config` for config.json."""
    return {
        "quant_method": "gptq",
        "bits": bits,
        "group_size": group_size,
        "sym": symmetric,
        "desc_act": False,
        "checkpoint_format": "gptq",
        "lm_head": False,
        "meta": {"quantizer": ["headrace"]},
    }


def awq_config(group_size: int, unquantized: Sequence[str] = ("lm_head",)) -> Mapping[str, Any]:
    """Returns `quantization_config` for config.json. `unquantized` names the products left unquantized."""
    return {
        "quant_method": "awq",
        "bits": 4,
        "group_size": group_size,
        "zero_point": True,
        "version": "gemm",
        "modules_to_not_convert": list(unquantized),
    }


def _pack_awq(values: Tensor) -> Tensor:
    """Packs uint8 [rows, columns] to int32 [rows, columns / 8], with the columns of each word in AWQ's order."""
    words = values.reshape(len(values), -1, PER_WORD)[..., list(ORDER)]
    return pack(words.reshape(values.shape), 4)
