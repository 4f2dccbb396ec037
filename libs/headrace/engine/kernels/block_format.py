"""Sizes of GGUF's quantized blocks, in files and in panels: see `src/block_format.h`."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from headrace.engine.kernels.storage import Storage

LINE_BYTES = 64
"""Panels are padded to multiples of it."""


@dataclass(frozen=True, slots=True)
class BlockFormat:
    """Sizes of one kind of blocks."""

    columns: int
    """Columns of a block, which share its fp16 scales. In products, their inputs share a scale too."""
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
    }
)
"""Formats that the kernels multiply as they are."""
