"""A layer's attention as the GPU kernels see it. Needs no Triton."""

from dataclasses import dataclass

import torch

MAX_HEAD_SIZE = 256
MAX_SHARE = 64
"""Query heads of a KV head that one program of a decode holds."""
STATES = (torch.float32, torch.float16, torch.bfloat16, torch.int8, torch.float8_e4m3fn)


@dataclass(frozen=True, slots=True)
class AttentionProblem:
    """Attention over a paged KV cache."""

    head_count: int
    kv_head_count: int
    head_size: int
    states: torch.dtype
    """Type in which keys and values are kept."""
    dtype: torch.dtype
    """Type of queries and outputs."""
    device: torch.device

    @property
    def misfit(self) -> str:
        """Reason why no kernel takes it on any device, or nothing."""
        if self.head_size > MAX_HEAD_SIZE:
            return f"heads of {self.head_size} elements; the kernels have up to {MAX_HEAD_SIZE}"
        if self.head_count % self.kv_head_count or self.head_count // self.kv_head_count > MAX_SHARE:
            return (
                f"{self.head_count} query heads for {self.kv_head_count} KV heads; the kernels share one among up to "
                f"{MAX_SHARE}"
            )
        if self.states not in STATES:
            return f"keys and values of {self.states}; the kernels need 32 or 16 bits, int8 or fp8"
        return ""
