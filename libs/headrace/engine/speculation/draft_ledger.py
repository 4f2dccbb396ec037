"""Account of what draft tokens cost and gave: to each text, and to all texts together."""

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.engine.batching.sequence import Sequence
from headrace.engine.speculation.allowance import Allowance
from headrace.engine.speculation.draft_choice import DraftPrices
from headrace.engine.speculation.draft_history import DraftHistory
from headrace.engine.speculation.step_cost import SHIFT

CAPITAL, INCOME, MAX_CAPITAL = 64.0, 0.005, 256.0
"""Tokens that all texts together may lose: at the start, per generated token, and of what was gained. The draft model's
reading of long texts is paid from this, since it is lost only if its drafts are wrong."""
OUTLIER = 4.0
"""Longest time that counts as lost, as a multiple of the expected one: beyond it, something else held the processor."""

Shares = Mapping[DraftHistory, int]
"""Parts of a cost that texts bear, relative to each other."""


@dataclass(slots=True)
class _BoughtRows:
    """Draft tokens in the step that is computed now."""

    shares: Shares
    prices: DraftPrices
    seconds: float
    """Expected time of the step."""


class _Delays:
    """Losses of time that may have been another process's doing: one counts once there is another right after it."""

    def __init__(self) -> None:
        self._pending: float | None = None

    def confirm(self, seconds: float, expected: float) -> float:
        """Returns the lost seconds that count now, given what the latest step took and what was expected of it."""
        late = min(seconds, OUTLIER * expected) - expected if seconds > SHIFT * expected else 0.0
        if late <= 0:
            self._pending = None
            return 0.0
        if self._pending is None:
            self._pending = late
            return 0.0
        counted, self._pending = late + self._pending, 0.0
        return counted


class DraftLedger:
    """Books losses and gains, in tokens, on the allowance of each text and on that of all texts together."""

    def __init__(self) -> None:
        self.common = Allowance(CAPITAL, INCOME, MAX_CAPITAL)
        """Tokens that all texts together may lose."""
        self._bought: _BoughtRows | None = None
        self._slow_steps, self._slow_drafts = _Delays(), _Delays()

    def generate(self, history: DraftHistory, sequence: Sequence) -> None:
        """Books the tokens that a text has got since the last call."""
        self.common.generate(history.count_tokens(sequence))

    def gain(self, history: DraftHistory, token_count: float) -> None:
        """Books draft tokens that were accepted, less what computing some of them again costs, in tokens."""
        history.allowance.gain(token_count)
        self.common.gain(token_count)

    def charge(self, shares: Shares, seconds: float, prices: DraftPrices) -> None:
        """Books lost time on texts, in proportion to their shares, and on all together."""
        tokens = seconds / prices.token_seconds
        self.common.gain(-tokens)
        total = sum(shares.values())
        for history, share in shares.items():
            history.allowance.gain(-tokens * share / total)

    def charge_model(
        self, shares: Shares, seconds: float, expected: float, reading: float, prices: DraftPrices
    ) -> None:
        """Books the `seconds` that a draft model took; `reading` of them are on all texts together."""
        if expected:
            seconds = min(seconds, expected) + self._slow_drafts.confirm(seconds, expected)
        self.common.gain(-min(reading, seconds) / prices.token_seconds)
        self.charge(shares, max(0.0, seconds - reading), prices)

    def buy_rows(self, shares: Shares, prices: DraftPrices) -> None:
        """Books the rows of the step to come, one for each draft token in `shares`."""
        if shares:
            count = sum(shares.values())
            self.charge(shares, prices.row_seconds(count), prices)
            self._bought = _BoughtRows(shares, prices, prices.step(prices.row_count + count))

    def begin_step(self) -> None:
        """Forgets rows whose step was not measured."""
        self._bought = None

    def observe_step(self, seconds: float) -> None:
        """Books that a step with draft tokens took longer than expected, if the one before it did too."""
        bought, self._bought = self._bought, None
        if bought is not None and (lost := self._slow_steps.confirm(seconds, bought.seconds)):
            self.charge(bought.shares, lost, bought.prices)
