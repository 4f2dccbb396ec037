"""Number formats in memory. The values are those of `Storage` in `src/abi.h`."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

LINE_BYTES = 64
"""Panels of blocks are padded to multiples of it."""


class Storage(enum.IntEnum):
    F32 = 0
    BF16 = 1
    F16 = 2
    U4 = 3
    """Codes 0..15, two per byte. For weights only."""
    U8 = 4
    """Codes 0..255. For weights only."""
    S8 = 5
    """Codes -128..127. For keys and values only."""
    FP8 = 6
    """e4m3fn (Micikevicius et al., 2022). For keys and values only."""
    Q4_0 = 7
    """GGUF's blocks, here and below, under ggml's names: see `BLOCKS`."""
    Q4_1 = 8
    Q5_0 = 9
    Q5_1 = 10
    Q8_0 = 11
    Q4_K = 12
    Q5_K = 13
    Q6_K = 14
    MXFP4 = 15
    """E2M1, and powers of two for scales (OCP Microscaling Formats 1.0)."""

    @property
    def byte_count(self) -> float:
        """Size of one number in bytes."""
        return {Storage.F32: 4, Storage.BF16: 2, Storage.F16: 2, Storage.U4: 0.5}.get(self, 1)


@dataclass(frozen=True, slots=True)
class BlockFormat:
    """Sizes of one kind of GGUF's quantized blocks, in files and in panels: see `src/block_format.h`."""

    columns: int
    """Columns of a block, which share its scales. In products, their inputs share a scale too."""
    file_bytes: int
    """Bytes of a block of one row in a file."""
    panel_bytes: int
    """Bytes of the blocks of 16 rows in a panel."""

    def row_bytes(self, in_size: int) -> int:
        """Returns the bytes of a row of `in_size` columns in a file."""
        return in_size // self.columns * self.file_bytes

    def padded_panel_bytes(self, in_size: int) -> int:
        """Returns the bytes of a panel of `in_size` columns."""
        return -(-in_size // self.columns * self.panel_bytes // LINE_BYTES) * LINE_BYTES


CODED = (Storage.U4, Storage.U8)
"""Formats of codes for weights, with a scale and a zero point for each group of inputs."""

BLOCKS: Mapping[Storage, BlockFormat] = MappingProxyType(
    {
        Storage.Q4_0: BlockFormat(32, 18, 288),
        Storage.Q4_1: BlockFormat(32, 20, 320),
        Storage.Q5_0: BlockFormat(32, 22, 352),
        Storage.Q5_1: BlockFormat(32, 24, 384),
        Storage.Q8_0: BlockFormat(32, 34, 544),
        Storage.Q4_K: BlockFormat(256, 144, 2368),
        Storage.Q5_K: BlockFormat(256, 176, 2880),
        Storage.Q6_K: BlockFormat(256, 210, 3392),
        Storage.MXFP4: BlockFormat(32, 17, 288),
    }
)
"""Formats that the kernels multiply as they are."""


def code_storage(bits: int) -> Storage:
    """Returns the narrowest of `CODED` that holds codes of `bits` bits, at most 8."""
    return Storage.U4 if bits <= 4 else Storage.U8
