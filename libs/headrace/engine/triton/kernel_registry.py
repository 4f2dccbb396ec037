"""Problems that the GPU kernels can take. It is asked where Triton may be missing, and imports none of it."""

import os
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec

import torch

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
BITS = (4, 8)
GROUP_UNIT = 32
LEAST_CAPABILITY = (8, 0)


@dataclass(frozen=True, slots=True)
class ProductProblem:
    """A product with quantized weights."""

    bits: int
    group_size: int
    in_size: int
    dtype: torch.dtype
    device: torch.device


def can_implement(problem: ProductProblem) -> tuple[bool, str]:
    """Whether a kernel takes the problem, and the reason if none does."""
    if problem.bits not in BITS:
        return False, f"codes of {problem.bits} bits; the kernels have 4 and 8"
    if problem.group_size % GROUP_UNIT and problem.group_size < problem.in_size:
        return False, f"groups of {problem.group_size} inputs; the kernels need multiples of {GROUP_UNIT}"
    if problem.dtype not in DTYPES:
        return False, f"inputs of {problem.dtype}; the kernels need 16 or 32 bits"
    return can_launch(problem.device)


def can_launch(device: torch.device) -> tuple[bool, str]:
    """Whether Triton runs on a device: a GPU since sm_80, or anything under its interpreter (TRITON_INTERPRET=1)."""
    if not _is_installed():
        return False, "triton is not installed: install headrace[gpu]"
    if os.environ.get("TRITON_INTERPRET") == "1":
        return True, "ok"
    if device.type != "cuda":
        return False, f"device {device} is no GPU"
    capability = torch.cuda.get_device_capability(device)
    if capability < LEAST_CAPABILITY:
        return False, f"the GPU is sm_{capability[0]}{capability[1]}; the kernels need sm_80 or newer"
    return True, "ok"


@cache
def _is_installed() -> bool:
    return find_spec("triton") is not None
