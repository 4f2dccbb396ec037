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

    @property
    def byte_count(self) -> float:
        """Size of one number in bytes."""
        return {Storage.F32: 4, Storage.BF16: 2, Storage.F16: 2, Storage.U4: 0.5}.get(self, 1)
