"""Draft tokens of a batch compete for the rows of one step."""

import itertools
from dataclasses import replace

import pytest

from headrace.engine.speculation.draft_choice import MIN_GAIN, DraftPrices, Offer, choose_lengths
from headrace.engine.speculation.step_cost import StepCost

STAIRS = StepCost({1: 10.0, 2: 10.5, 4: 12.0, 8: 18.0, 16: 32.0, 32: 64.0})
"""Seconds of a model that waits for memory with few rows, and computes with many."""


def prices(sequence_count: int, draft_seconds: float = 1.0, row_count: int | None = None) -> DraftPrices:
    return DraftPrices(row_count or sequence_count, sequence_count, STAIRS, lambda rows: draft_seconds * rows**0.5, 0.2)


def rate(lengths: tuple[int, ...], offers: list[Offer], costs: DraftPrices) -> float:
    """Tokens per second, written from the definition."""
    tokens = sum(
        sum(offer.acceptance**j for j in range(length + 1)) for offer, length in zip(offers, lengths, strict=True)
    )
    asked = [length for offer, length in zip(offers, lengths, strict=True) if offer.asks_model]
    rounds = [sum(length > place for length in asked) for place in range(max(asked, default=0))]
    seconds = costs.step(costs.row_count + sum(lengths)) - costs.step(costs.row_count) + costs.step(len(offers))
    seconds += sum(map(costs.draft, rounds)) + (costs.first_draft if rounds else 0.0)
    seconds += sum(offer.seconds for offer, length in zip(offers, lengths, strict=True) if length)
    return tokens / seconds


@pytest.mark.parametrize("acceptances", [(0.9,), (0.5,), (0.9, 0.3), (0.8, 0.6, 0.95), (1.0, 0.2)])
@pytest.mark.parametrize("asks_model", [False, True])
def test_no_other_lengths_would_be_faster(acceptances: tuple[float, ...], asks_model: bool) -> None:
    """Compared with all possible lengths. A draft model's steps are shared, for which the order is only nearly best."""
    offers = [Offer(acceptance, 5, asks_model) for acceptance in acceptances]
    costs = prices(len(offers))
    chosen, gain = choose_lengths(offers, costs)
    best = max(rate(lengths, offers, costs) for lengths in itertools.product(range(6), repeat=len(offers)))
    plain = rate((0,) * len(offers), offers, costs)
    assert rate(tuple(chosen), offers, costs) >= best * (0.99 if asks_model else 1 - 1e-9)
    assert gain == pytest.approx(rate(tuple(chosen), offers, costs) / plain)


@pytest.mark.parametrize("acceptance", [0.95, 0.8, 0.6, 0.3])
def test_tokens_that_are_computed_again_are_priced(acceptance: float) -> None:
    """Compared with each length, by what may come of its draft tokens: none right, the first, the first two, …"""
    costs = replace(prices(1), retraces=True)

    def rate_of(length: int) -> float:
        chances = [acceptance**right * (1 - acceptance) for right in range(length)] + [acceptance**length]
        tokens = sum(chance * (1 + right) for right, chance in enumerate(chances))
        again = sum(chance * right for right, chance in enumerate(chances[:-1]))
        row_seconds = costs.row_seconds(length) / length if length else 0.0
        return tokens / (costs.step(1) + length * row_seconds + again * row_seconds)

    (chosen,), gain = choose_lengths([Offer(acceptance, 8)], costs)
    best = max(map(rate_of, range(9)))
    assert rate_of(chosen) in (pytest.approx(best), rate_of(0) if best < MIN_GAIN * rate_of(0) else None)
    assert gain == pytest.approx(rate_of(chosen) / rate_of(0))
    assert chosen <= choose_lengths([Offer(acceptance, 8)], prices(1))[0][0]


def test_a_full_batch_gets_none_where_one_sequence_gets_many() -> None:
    good = Offer(0.9, 8, asks_model=True)
    assert choose_lengths([good], prices(1))[0][0] >= 3
    lengths, gain = choose_lengths([good] * 16, prices(16))
    assert (lengths, gain) == ([0] * 16, 1.0)
    assert prices(1).could_pay()
    assert not prices(16).could_pay()


def test_the_better_draft_tokens_come_first() -> None:
    lengths, _ = choose_lengths([Offer(0.95, 8), Offer(0.3, 8), Offer(0.95, 2)], prices(3))
    assert lengths[0] > lengths[1]
    assert lengths[2] == 2


def test_nothing_to_choose_from_is_no_error() -> None:
    assert choose_lengths([], prices(2)) == ([], 1.0)
    assert choose_lengths([Offer(0.0, 3), Offer(0.9, 0)], prices(2)) == ([0, 0], 1.0)


def test_reading_counts_and_a_gain_that_is_too_small_does_not() -> None:
    assert choose_lengths([Offer(0.9, 4, True)], prices(1))[1] > 1.5
    assert choose_lengths([Offer(0.9, 4, True, seconds=30.0)], prices(1)) == ([0], 1.0)
    assert choose_lengths([Offer(0.065, 1)], prices(1))[1] == 1.0 < MIN_GAIN


def test_rows_of_a_prompt_in_the_same_step_make_draft_tokens_dear() -> None:
    assert prices(1).worst_loss(1, asks_model=False) < 0.1
    assert prices(1, row_count=24).worst_loss(1, asks_model=False) > 0.15
    assert prices(1).worst_loss(2, asks_model=True) == pytest.approx(prices(1).worst_loss(2, asks_model=False) + 0.22)
