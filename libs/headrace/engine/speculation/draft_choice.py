"""Chooses how many draft tokens all sequences of a step get (Leviathan et al., 2023, section 3.3, with a table of costs
instead of a constant, and for a batch): draft tokens compete for the rows of one step."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

MIN_GAIN = 1.02
"""Smallest expected speedup, as a factor, that makes draft tokens worth a try."""
UNLIKELY = 0.05
"""Probability below which no draft token is considered."""

RowCost = Callable[[int], float]
"""Seconds of a step by its number of rows."""


@dataclass(frozen=True, slots=True)
class Offer:
    """Draft tokens that one source has for one sequence."""

    acceptance: float
    """Probability that a draft token is correct, given that those before it are."""
    limit: int
    asks_model: bool = False
    """Whether the draft model makes them, all sequences' first draft tokens in one step, their second in another."""
    seconds: float = 0.0
    """Share of the draft model's reading that this step has to pay for."""


@dataclass(frozen=True, slots=True)
class DraftPrices:
    """Costs of a step with draft tokens."""

    row_count: int
    """Rows without draft tokens."""
    sequence_count: int
    """Sequences that decode: rows that would be there in any case, and give one token each."""
    step: RowCost
    """The model's steps."""
    draft: RowCost
    """The draft model's."""
    first_draft: float = 0.0
    """Seconds that the first of the draft model's steps takes longer, because the large model had the caches."""
    retraces: bool = False
    """Whether tokens that were right before a wrong one are computed once more, as where a model keeps states."""

    @property
    def token_seconds(self) -> float:
        """Seconds that a token takes without draft tokens."""
        return self.step(self.sequence_count) / self.sequence_count

    def row_seconds(self, row_count: int) -> float:
        """Returns the seconds that `row_count` more rows add to the step."""
        return self.step(self.row_count + row_count) - self.step(self.row_count)

    def retraced_seconds(self, count: int, row_count: float) -> float:
        """Returns the seconds of `row_count` rows of later steps, each as long as one of `count` draft tokens."""
        return row_count * self.row_seconds(count) / count if self.retraces and count else 0.0

    def could_pay(self) -> bool:
        """Whether draft tokens are worth their rows if all are right: one for each sequence."""
        decoding = self.step(self.sequence_count)
        return 2 * decoding > MIN_GAIN * (decoding + self.row_seconds(self.sequence_count))

    def worst_loss(self, count: int, asks_model: bool) -> float:
        """Returns what `count` draft tokens for one sequence cost if all are wrong, in tokens."""
        drafting = count * self.draft(1) + self.first_draft if asks_model else 0.0
        return (self.row_seconds(count) + drafting) / self.token_seconds


def choose_lengths(offers: Sequence[Offer], prices: DraftPrices) -> tuple[list[int], float]:
    """Returns the number of draft tokens for each offer, and the expected speedup as a factor.

    Draft tokens are added in the order of their probability to be accepted, and the number with the highest tokens per
    second is taken: costs rise in stairs, so the last one that pays for itself may not be the last to be looked at.
    """
    candidates = sorted(_candidates(offers), reverse=True)
    lengths, best_lengths = [0] * len(offers), [0] * len(offers)
    decoding = prices.step(prices.sequence_count)
    tokens, drafting, retraced = float(prices.sequence_count), 0.0, 0.0
    plain = best = tokens / decoding
    rounds: list[int] = []
    best_count = 0
    for count, (likelihood, _, index) in enumerate(candidates, 1):
        tokens += likelihood
        offer = offers[index]
        if lengths[index] == 0:
            drafting += offer.seconds
        if offer.asks_model:
            drafting += prices.first_draft if not rounds else 0.0
            drafting += _extend(rounds, lengths[index], prices.draft)
        # Expected number of tokens before a wrong one: with one more draft token, all before it may be among them.
        retraced += lengths[index] * (likelihood / offer.acceptance - likelihood)
        lengths[index] += 1
        rows = prices.row_seconds(count) + prices.retraced_seconds(count, retraced)
        rate = tokens / (decoding + rows + drafting)
        if rate > best:
            best, best_count = rate, count
    if best < MIN_GAIN * plain:
        return best_lengths, 1.0
    for _, _, index in candidates[:best_count]:
        best_lengths[index] += 1
    return best_lengths, best / plain


def _candidates(offers: Sequence[Offer]) -> list[tuple[float, int, int]]:
    """Lists each draft token: the probability that it is accepted, its place counted backwards, and its offer. So the
    order is that in which a sequence's draft tokens follow each other even where all are certain."""
    found = []
    for index, offer in enumerate(offers):
        likelihood = 1.0
        for place in range(offer.limit):
            likelihood *= offer.acceptance
            if likelihood < UNLIKELY:
                break
            found.append((likelihood, -place, index))
    return found


def _extend(rounds: list[int], place: int, draft: RowCost) -> float:
    """Lets one more sequence take part in the draft model's step for draft tokens at `place`. Returns what that adds in
    seconds."""
    if place == len(rounds):
        rounds.append(1)
        return draft(1)
    rounds[place] += 1
    return draft(rounds[place]) - draft(rounds[place] - 1)
