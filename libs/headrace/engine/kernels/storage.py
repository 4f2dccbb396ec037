"""Forms in which numbers are held in memory. The values are those of `Storage` in `src/abi.h`."""

import enum


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
        """Bytes of one number."""
        return {Storage.F32: 4, Storage.BF16: 2, Storage.F16: 2, Storage.U4: 0.5}.get(self, 1)
