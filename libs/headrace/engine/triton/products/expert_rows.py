"""Rows of a mixture of experts, sorted by the expert that computes them."""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 512
WARP_COUNT = 4
NO_EXPERT = -1


@dataclass(frozen=True, slots=True)
class ExpertRows:
    """Choices of rows, sorted by expert and filled up to whole tiles, as vLLM's fused mixture has them. Their number
    depends on that of the rows alone, so that a graph can hold it."""

    places: Tensor
    """Choices int32 [tiles x tile_rows]: row x chosen experts + choice; the number of choices where a tile is filled
    up. What tiles without an expert have is not defined."""
    experts: Tensor
    """Expert of each tile, int32 [tiles]; -1 for those that no expert needs."""
    tile_rows: int
    choice_count: int

    @property
    def tile_count(self) -> int:
        return len(self.experts)


@triton.jit(do_not_specialize=["choice_count", "tile_count"])
def expert_rows_kernel(
    chosen,
    places,
    experts,
    choice_count,
    tile_count,
    expert_count: tl.constexpr,
    bin_count: tl.constexpr,
    tile_rows: tl.constexpr,
    block: tl.constexpr,
):
    """Sorts the choices of one expert, in the order of rows. Each program counts those of all. Grid: experts."""
    expert = tl.program_id(0)
    lanes, bins = tl.arange(0, block), tl.arange(0, bin_count)
    counts = tl.zeros((bin_count,), tl.int32)
    for start in range(0, choice_count, block):
        is_choice = start + lanes < choice_count
        block_choices = tl.load(chosen + start + lanes, mask=is_choice, other=expert_count).to(tl.int32)
        counts += tl.histogram(block_choices, bin_count)
    tiles = (counts + tile_rows - 1) // tile_rows
    first = tl.sum(tl.where(bins < expert, tiles, 0))
    last = first + tl.sum(tl.where(bins == expert, tiles, 0))
    found = first * tile_rows
    for start in range(0, choice_count, block):
        is_choice = start + lanes < choice_count
        block_choices = tl.load(chosen + start + lanes, mask=is_choice, other=expert_count).to(tl.int32)
        is_mine = (block_choices == expert).to(tl.int32)
        tl.store(places + found + tl.cumsum(is_mine, 0) - 1, start + lanes, mask=is_mine > 0)
        found += tl.sum(is_mine)
    rest = found + tl.arange(0, tile_rows)
    tl.store(places + rest, tl.zeros((tile_rows,), tl.int32) + choice_count, mask=rest < last * tile_rows)
    for tile in range(first, last):
        tl.store(experts + tile, expert)
    if expert == expert_count - 1:
        for tile in range(last, tile_count):
            tl.store(experts + tile, -1)


def sort_by_expert(chosen: Tensor, expert_count: int, tile_rows: int) -> ExpertRows:
    """Sorts contiguous choices, integers [rows, chosen] below `expert_count`, in tiles of `tile_rows`."""
    choice_count = chosen.numel()
    # Each expert that is chosen fills all tiles but its last one.
    tile_count = min(choice_count, expert_count + (choice_count - 1) // tile_rows)
    places = torch.empty(tile_count * tile_rows, dtype=torch.int32, device=chosen.device)
    experts = torch.empty(tile_count, dtype=torch.int32, device=chosen.device)
    expert_rows_kernel[(expert_count,)](
        chosen,
        places,
        experts,
        choice_count,
        tile_count,
        expert_count=expert_count,
        bin_count=triton.next_power_of_2(expert_count + 1),
        tile_rows=tile_rows,
        block=BLOCK,
        num_warps=WARP_COUNT,
    )
    return ExpertRows(places, experts, tile_rows, choice_count)
