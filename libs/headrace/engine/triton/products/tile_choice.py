"""Choice of the tiles of products with quantized weights: all that is measured on a GPU, in one place."""

from dataclasses import dataclass
from functools import cache

import torch

MULTIPROCESSORS = 108
"""Multiprocessors of an A100, taken where there is no GPU to ask."""
MIN_SPLIT = 512
"""Inputs of a split below which its sum costs more than it saves."""
MAX_SPLITS = 8


@dataclass(frozen=True, slots=True)
class Tile:
    """Part of the result that one program computes, and the resources it does that with."""

    row_count: int
    out_count: int
    warp_count: int
    stage_count: int
    """Blocks of inputs and words that one program has at once: one is multiplied, the others are on their way."""


@dataclass(frozen=True, slots=True)
class TileChoice:
    """Tiles of one kind of GPU, and the rows that they are for.

    Measured on an H100 (docs/results/2026-11-27-gpu-first-minutes.md). For other cards the tiles are those whose
    compiled kernels have the fewest instructions for a weight and spill nothing. `make gpu` measures each tile at each
    number of rows beside the others.
    """

    narrow: Tile = Tile(16, 128, 4, 3)
    middle: Tile = Tile(32, 128, 4, 3)
    wide: Tile = Tile(64, 128, 4, 3)
    max_narrow_rows: int = 16
    max_middle_rows: int = 32
    wanted_programs: float = 1.4
    """Programs of a multiprocessor below which inputs are split: the largest weights of a layer are then whole."""

    def count_splits(self, in_size: int, out_size: int, tile: Tile, multiprocessors: int) -> int:
        """Counts the splits of the inputs of a weight. It depends on no row, so that none changes another's bits."""
        splits, tiles, wanted = 1, -(-out_size // tile.out_count), self.wanted_programs * multiprocessors
        while splits < MAX_SPLITS and splits * tiles < wanted and in_size >= 2 * splits * MIN_SPLIT:
            splits *= 2
        return splits


USUAL = TileChoice()
CHOICES = {
    (8, 9): TileChoice(Tile(16, 128, 4, 2), Tile(32, 128, 4, 2), Tile(64, 128, 4, 2)),
    (9, 0): TileChoice(narrow=Tile(16, 128, 4, 4)),
}
"""Choices by compute capability, where the usual one does not fit. sm_89 has 100 KiB of shared memory, and memory slow
enough for two stages; that of sm_90 is fast enough for four."""


def choose_tiles(device: torch.device) -> TileChoice:
    """Chooses by compute capability. Without a GPU: the usual choice."""
    return CHOICES.get(torch.cuda.get_device_capability(device), USUAL) if device.type == "cuda" else USUAL


@cache
def count_multiprocessors(device: torch.device) -> int:
    """Returns the multiprocessors of a GPU; 108 for what is none."""
    if device.type != "cuda":
        return MULTIPROCESSORS
    count: int = torch.cuda.get_device_properties(device).multi_processor_count
    return count
