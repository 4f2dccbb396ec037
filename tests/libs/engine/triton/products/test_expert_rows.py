"""Choices of rows are sorted by expert, in the order of rows, and filled up to whole tiles."""

import pytest
import torch
from torch import Tensor

from headrace.engine.triton.products.expert_rows import NO_EXPERT, ExpertRows, sort_by_expert


def choose(row_count: int, expert_count: int, chosen_count: int) -> Tensor:
    scores = torch.rand(row_count, expert_count, generator=torch.Generator().manual_seed(row_count))
    return scores.topk(chosen_count).indices


def check(rows: ExpertRows, chosen: Tensor) -> None:
    flat = chosen.flatten().tolist()
    left = {expert: [place for place, each in enumerate(flat) if each == expert] for expert in set(flat)}
    tiles = zip(rows.experts.tolist(), rows.places.view(-1, rows.tile_rows).tolist(), strict=True)
    last = -1
    for expert, places in tiles:
        if expert == NO_EXPERT:
            last = max(flat) + 1
            continue
        assert expert >= last
        last = expert
        count = min(rows.tile_rows, len(left[expert]))
        assert places == left[expert][:count] + [len(flat)] * (rows.tile_rows - count)
        del left[expert][:count]
    assert not any(left.values())


@pytest.mark.parametrize(
    ("row_count", "expert_count", "chosen_count"), [(1, 8, 2), (5, 4, 4), (40, 5, 3), (700, 60, 2)]
)
@pytest.mark.parametrize("tile_rows", [16, 32])
def test_each_expert_has_its_choices(row_count: int, expert_count: int, chosen_count: int, tile_rows: int) -> None:
    chosen = choose(row_count, expert_count, chosen_count)
    check(sort_by_expert(chosen, expert_count, tile_rows), chosen)


def test_all_may_choose_one_expert() -> None:
    for expert in (0, 3):
        chosen = torch.full((70, 1), expert)
        check(sort_by_expert(chosen, 4, 16), chosen)


def test_the_number_of_tiles_depends_on_rows_alone() -> None:
    """A graph of launches holds it."""
    for chosen in (torch.zeros(9, 2, dtype=torch.int64), choose(9, 8, 2)):
        assert sort_by_expert(chosen, 8, 16).tile_count == 9
