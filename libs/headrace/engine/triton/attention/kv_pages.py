"""Layout of keys and values that the GPU kernels read and write."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True)
class KvPages:
    """Keys and values of one layer, used in place."""

    states: Tensor
    """[2, kv heads, blocks, block size, head] of 32 or 16 bits, int8 or float8_e4m3fn."""
    scales: Tensor | None = None
    """Factors float32 [2, kv heads, blocks, block size] of int8 or fp8 states. None: 1."""
