"""How numbers are held in memory. The values are those of `Storage` in `src/abi.h`."""

import enum

import torch
from torch import Tensor


class Storage(enum.IntEnum):
    F32 = 0
    BF16 = 1
    F16 = 2
    U4 = 3
    """Codes 0..15, two in a byte."""
    S8 = 4
    """Codes -128..127."""
    FP8 = 5
    """e4m3fn (Micikevicius et al., 2022). Only for keys and values."""

    @property
    def byte_count(self) -> float:
        """Of one number."""
        return {Storage.F32: 4, Storage.BF16: 2, Storage.F16: 2, Storage.U4: 0.5}.get(self, 1)


_PLAIN = {torch.float32: Storage.F32, torch.bfloat16: Storage.BF16, torch.float16: Storage.F16}


def compact(tensor: Tensor) -> Tensor:
    """The same numbers in 16 bits, if all of them fit there: checkpoints mostly come from bf16 or fp16."""
    if tensor.dtype != torch.float32:
        return tensor
    for dtype in (torch.bfloat16, torch.float16):
        smaller = tensor.to(dtype)
        if torch.equal(smaller.float(), tensor):
            return smaller
    return tensor


def storage_of(tensor: Tensor) -> Storage:
    return _PLAIN[tensor.dtype]
