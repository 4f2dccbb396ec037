"""Number formats in memory. The values are those of `Storage` in `src/abi.h`."""

import enum


class Storage(enum.IntEnum):
    F32 = 0
    BF16 = 1
    F16 = 2
    U4 = 3
    """Codes 0..15, two per byte."""
    S8 = 4
    """Codes -128..127."""
    FP8 = 5
    """e4m3fn (Micikevicius et al., 2022). For keys and values only."""
    Q4_0 = 6
    """GGUF's blocks, here and below, under ggml's names: see `BLOCKS` in `block_format.py`."""
    Q4_1 = 7
    Q5_0 = 8
    Q5_1 = 9
    Q8_0 = 10
    Q4_K = 11
    Q5_K = 12
    Q6_K = 13

    @property
    def byte_count(self) -> float:
        """Size of one number in bytes."""
        return {Storage.F32: 4, Storage.BF16: 2, Storage.F16: 2, Storage.U4: 0.5}.get(self, 1)
