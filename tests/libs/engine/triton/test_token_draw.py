"""Draws of the kernel are those of sorted rows, at the same uniform numbers."""

from typing import Any

import pytest
import torch
from tests.libs.engine.engine_running import request
from torch import Tensor

from headrace.engine.batching.sequence import Sequence
from headrace.engine.gpu.operators.gpu_sampler import choose_gpu_sampler
from headrace.engine.gpu.operators.triton_draw import draw
from headrace.engine.torch.sampling import sorted_draw
from headrace.engine.torch.sampling.sorted_draw import draw_sorted
from headrace.engine.triton.token_draw import BLOCK, draw_tokens

SAMPLINGS: list[dict[str, Any]] = [
    {},
    {"temperature": 0.6},
    {"min_p": 0.05},
    {"top_p": 0.9},
    {"top_p": 0.05},
    {"top_k": 1},
    {"top_k": 40},
    {"top_k": 100_000},
    {"temperature": 3.0, "top_k": 300, "top_p": 0.95},
    {"top_k": 50, "top_p": 0.8, "min_p": 0.1},
    {"temperature": 0.3, "top_p": 0.999, "min_p": 0.001},
]
ROWS = range(len(SAMPLINGS))


def make_logits(size: int) -> Tensor:
    return torch.randn(len(ROWS), size, generator=torch.Generator().manual_seed(0)) * 3


def make_sequences() -> list[Sequence]:
    made = [request("r", (1, 2), **{"temperature": 1.0, "seed": row, **SAMPLINGS[row]}) for row in ROWS]
    return [Sequence(each, 0, each.sampling.seed or 0, frozenset(), 1000) for each in made]


@pytest.mark.parametrize("size", [1, 331, BLOCK, BLOCK + 1])
def test_the_kernel_draws_what_sorting_draws(size: int) -> None:
    logits, sequences = make_logits(size), make_sequences()
    assert draw(logits, sequences).tolist() == draw_sorted(logits, sequences).tolist()


@pytest.mark.parametrize("number", [0.0, 0.6, 1 - 2**-52])
def test_equal_logits_are_drawn_in_the_order_of_the_vocabulary(number: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Top-k and top-p cut some of the equal ones off."""
    monkeypatch.setattr(sorted_draw, "uniform", lambda *_: number)
    monkeypatch.setattr("headrace.engine.gpu.operators.triton_draw.uniform", lambda *_: number)
    logits = make_logits(900).mul(0.5).round()
    logits[:, ::7] = -0.0
    logits[:, 5::11] = -torch.inf
    assert draw(logits, make_sequences()).tolist() == draw_sorted(logits, make_sequences()).tolist()


def test_a_row_does_not_depend_on_the_others() -> None:
    logits = make_logits(BLOCK + 9)
    rows = slice(2, 5)
    expected = draw(logits, make_sequences())[rows]
    assert draw(logits[rows].flip(0), make_sequences()[rows][::-1]).flip(0).tolist() == expected.tolist()


def test_what_cannot_be_is_never_drawn() -> None:
    logits = torch.full((len(ROWS), BLOCK + 9), -torch.inf)
    logits[:, BLOCK + 3] = -80.0
    assert set(draw(logits, make_sequences()).tolist()) == {BLOCK + 3}


def test_all_probabilities_are_met() -> None:
    """Uniform numbers in even steps give each token as often as it is likely."""
    count, probabilities = 20, torch.tensor([0.1, 0.4, 0.2, 0.3])
    numbers = (torch.arange(count, dtype=torch.float64) + 0.5) / count
    for top_p, expected in ((1.0, probabilities), (0.65, torch.tensor([0, 4 / 7, 0, 3 / 7]))):
        ones = torch.ones(count, dtype=torch.float64)
        terms = torch.stack([ones, ones * 0, ones * top_p, ones * 0, numbers])
        drawn = draw_tokens(probabilities.log().expand(count, -1).contiguous(), terms)
        counts = torch.bincount(drawn, minlength=4)
        assert (counts - expected * count).abs().max() <= 1


def test_a_gpu_draws_with_the_kernel_unless_the_settings_ask_for_torch() -> None:
    device = torch.device("cuda")
    assert choose_gpu_sampler(device, "auto")._draw is draw
    assert choose_gpu_sampler(device, "torch")._draw is draw_sorted


def test_no_rows_give_no_tokens() -> None:
    assert draw(make_logits(9)[:0], []).shape == (0,)
