"""Problems that the GPU kernels can take. It is asked where Triton may be missing, and imports none of it."""

import os
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec

import torch

from headrace.engine.triton.attention_problem import AttentionProblem

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
BITS = (4, 8)
GROUP_UNIT = 16
MIN_CAPABILITY = (8, 0)
MIN_FP8_CAPABILITY = (8, 9)
MAX_TILED_ROWS = {(8, 0): 255, (8, 9): 255, (9, 0): 320}
"""Rows up to which products read packed weights, by compute capability; with more of them, weights are dequantized for
cuBLAS. Measured on an H100 with the products of Llama 3.1 8B. For the others taken from vLLM, which does so with AWQ's
from 256 rows on; `make gpu` finds a card's own."""


@dataclass(frozen=True, slots=True)
class ProductProblem:
    """A product with quantized weights."""

    bits: int
    group_size: int
    in_size: int
    dtype: torch.dtype
    device: torch.device


def can_implement(problem: ProductProblem | AttentionProblem) -> tuple[bool, str]:
    """Whether a kernel takes the problem, and the reason if none does."""
    misfit = problem.misfit if isinstance(problem, AttentionProblem) else _misfit(problem)
    if misfit:
        return False, misfit
    if problem.dtype not in DTYPES:
        return False, f"inputs of {problem.dtype}; the kernels need 16 or 32 bits"
    can, reason = can_launch(problem.device)
    if can and isinstance(problem, AttentionProblem) and problem.states == torch.float8_e4m3fn:
        return _can_read_fp8(problem.device)
    return can, reason


def _misfit(problem: ProductProblem) -> str:
    if problem.bits not in BITS:
        return f"codes of {problem.bits} bits; the kernels have 4 and 8"
    if problem.group_size % GROUP_UNIT and problem.group_size < problem.in_size:
        return f"groups of {problem.group_size} inputs; the kernels need multiples of {GROUP_UNIT}"
    return ""


def _can_read_fp8(device: torch.device) -> tuple[bool, str]:
    if is_interpreted() or torch.cuda.get_device_capability(device) >= MIN_FP8_CAPABILITY:
        return True, "ok"
    return False, "keys and values of fp8, which need sm_89 or newer; int8 takes as little memory"


def can_launch(device: torch.device) -> tuple[bool, str]:
    """Whether Triton runs on a device: a GPU since sm_80, or anything under its interpreter (TRITON_INTERPRET=1)."""
    if not _is_installed():
        return False, "triton is not installed: install headrace[gpu]"
    if is_interpreted():
        return True, "ok"
    if device.type != "cuda":
        return False, f"device {device} is no GPU"
    capability = torch.cuda.get_device_capability(device)
    if capability < MIN_CAPABILITY:
        return False, f"the GPU is sm_{capability[0]}{capability[1]}; the kernels need sm_80 or newer"
    return True, "ok"


def max_tiled_rows(device: torch.device) -> int | None:
    """Returns the rows up to which products on a device read packed weights. None: any number."""
    if is_interpreted() or device.type != "cuda":
        return None
    return MAX_TILED_ROWS.get(torch.cuda.get_device_capability(device))


def is_interpreted() -> bool:
    """Whether kernels run in Triton's interpreter, if it was chosen before Triton was imported."""
    return os.environ.get("TRITON_INTERPRET") == "1"


@cache
def _is_installed() -> bool:
    return find_spec("triton") is not None
