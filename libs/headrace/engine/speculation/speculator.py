"""Chooses the source and number of each sequence's drafts: the grammar, a repetition in the text, or a draft model."""

import time
from collections.abc import Callable, Mapping

from headrace.engine.batching.drafter import Drafts
from headrace.engine.batching.sequence import Sequence
from headrace.engine.contract.held_memory import HeldMemory
from headrace.engine.speculation.draft_choice import DraftPrices, Offer, choose_lengths
from headrace.engine.speculation.draft_history import DraftHistory
from headrace.engine.speculation.draft_ledger import DraftLedger
from headrace.engine.speculation.draft_length import FIRST_PAUSE, DraftLength
from headrace.engine.speculation.draft_model import DraftModel
from headrace.engine.speculation.model_record import ModelRecord
from headrace.engine.speculation.step_cost import StepCost

FEW, MANY = 2, 16
"""Counts of consecutive steps of one size: the first few are measured, then one in many."""
ASSUMED = {"grammar": 0.9, "ngram": 0.6}
"""Prior share of correct drafts, by source that costs nothing."""
HORIZON, FREE_RUN = 64, 1
"""Maximum number of steps for which the draft model is expected to be useful after reading a text: without a grammar,
and with one, which forces tokens in between."""
TOKENS_PER_STEP = 4
"""Usual number of tokens of a step with the draft model's drafts, to spread its reading over a text."""


class Speculator:
    """A Drafter that weighs each draft token's expected gain against what it costs, and keeps an account of both."""

    def __init__(
        self,
        model: DraftModel | None = None,
        memory: HeldMemory | None = None,
        step_seconds: Mapping[int, float] | None = None,
        clock: Callable[[], float] = time.perf_counter,
        *,
        retraces: bool = False,
    ) -> None:
        """`model` drafts if neither grammar nor text does, and holds `memory`. `step_seconds` has the seconds of the
        large model's steps by row count, as measured at load. `retraces`: see `DraftPrices`."""
        self._model = model
        self.memory = memory or HeldMemory()
        self._clock = clock
        self._retraces = retraces
        self._step_cost = StepCost(step_seconds)
        self._histories: dict[Sequence, DraftHistory] = {}
        self._record = ModelRecord()
        self._ledger = DraftLedger()
        self._last_row_count = self._alike_count = 0
        self._prices = self._prices_of(1, 1)
        """Costs of the step that is planned now."""
        self._could_pay: bool | None = None
        """Whether draft tokens could pay at these costs. None: to be computed."""

    def observe_step(self, row_count: int, seconds: float) -> None:
        """Records the seconds that the model took for a step of decodes and their drafts."""
        self._ledger.observe_step(seconds)
        if row_count == self._last_row_count:
            self._alike_count += 1
            if self._alike_count >= FEW and self._alike_count % MANY:
                self._step_cost.pass_time()
                return
        else:
            self._last_row_count, self._alike_count = row_count, 0
        self._step_cost.observe(row_count, seconds)
        self._could_pay = None

    def may_pay(self, row_count: int, decode_count: int) -> bool:
        self._ledger.begin_step()
        if self._prices.row_count != row_count or self._prices.sequence_count != decode_count:
            self._prices, self._could_pay = self._prices_of(row_count, decode_count), None
        if self._could_pay is None:
            self._could_pay = self._prices.could_pay()
        return self._could_pay

    def may_draft(self, sequence: Sequence) -> bool:
        history = self._histories.get(sequence)
        if history is None:
            history = self._histories[sequence] = self._begin(sequence)
        if len(sequence.token_ids) < history.rests_until:
            return False
        if sequence.matcher is not None or self._may_ask_model(history, sequence):
            return True
        return history.is_due(sequence) and self._look(history, sequence)

    def propose(self, limits: Mapping[Sequence, int]) -> Drafts:
        self._prices = prices = self._prices_of(self._prices.row_count, self._prices.sequence_count)
        if prices.row_count == prices.sequence_count and self._step_cost.is_stale(prices.row_count):
            return {}
        started = self._clock()
        chosen = self._choose(limits, prices)
        lengths, _ = choose_lengths([offer for _, offer, _ in chosen.values()], prices)
        asked: dict[Sequence, int] = {}
        drafts: Drafts = {}
        for (sequence, (source, _, tokens)), length in zip(chosen.items(), lengths, strict=True):
            history = self._histories[sequence]
            history.source, history.draft_count = source, length
            if not length:
                history.lengths[source].pause(sequence.token_count)
            elif source == "model":
                asked[sequence] = length
            else:
                drafts[sequence] = tokens[:length]
        self._ledger.charge({self._histories[sequence]: 1 for sequence in limits}, self._clock() - started, prices)
        if asked and self._model is not None:
            drafts |= self._ask(self._model, asked, prices)
        self._ledger.buy_rows(self._shares({sequence: len(tokens) for sequence, tokens in drafts.items()}), prices)
        return drafts

    def observe(self, sequence: Sequence, accepted_count: int) -> None:
        history = self._histories.get(sequence)
        if history is not None and history.draft_count:
            history.lengths[history.source].observe(history.draft_count, accepted_count)
            retraced_count = accepted_count if accepted_count < history.draft_count else 0
            lost = self._prices.retraced_seconds(history.draft_count, retraced_count) / self._prices.token_seconds
            history.draft_count = 0
            self._ledger.gain(history, accepted_count - lost)

    def forget(self, sequence: Sequence) -> None:
        history = self._histories.pop(sequence, None)
        if self._model is not None:
            self._model.forget(sequence)
            if history is not None:
                self._record.learn(sequence, history.lengths["model"])

    def sleep(self) -> None:
        """Frees the draft model's KV cache. Requires that every sequence is forgotten. No drafts until `wake`."""
        if self._model is not None:
            self._model.sleep()

    def wake(self) -> None:
        if self._model is not None:
            self._model.wake()

    def _begin(self, sequence: Sequence) -> DraftHistory:
        lengths = {source: DraftLength(acceptance) for source, acceptance in ASSUMED.items()}
        lengths["model"] = self._record.begin(sequence)
        history = DraftHistory(lengths, has_credit=self._ledger.common.left > 0)
        history.count_tokens(sequence)
        return history

    def _prices_of(self, row_count: int, decode_count: int) -> DraftPrices:
        draft = (lambda _: 0.0) if self._model is None else self._model.step_seconds
        first = 0.0 if self._model is None else self._model.seconds_to_enter()
        return DraftPrices(row_count, decode_count, self._step_cost, draft, first, self._retraces)

    def _may_ask_model(self, history: DraftHistory, sequence: Sequence) -> bool:
        if self._model is None:
            return False
        return len(sequence.token_ids) >= max(history.next_ask, history.lengths["model"].paused_until)

    def _look(self, history: DraftHistory, sequence: Sequence) -> bool:
        """Looks for a repetition, if the text can afford it."""
        self._ledger.generate(history, sequence)
        if history.allowance.left <= 0:
            history.rest(sequence)
            return False
        started = self._clock()
        found = history.look(sequence)
        self._ledger.charge({history: 1}, self._clock() - started, self._prices)
        return found

    def _choose(
        self, limits: Mapping[Sequence, int], prices: DraftPrices
    ) -> dict[Sequence, tuple[str, Offer, tuple[int, ...]]]:
        """Chooses the source of each sequence that may have draft tokens, with its offer and the tokens that it has
        already."""
        chosen = {}
        for sequence, limit in limits.items():
            history = self._histories[sequence]
            self._ledger.generate(history, sequence)
            found = history.look_up(sequence, limit)
            if offers := self._offers(history, sequence, found, limit, prices):
                source, offer = _best(history, offers, prices)
                chosen[sequence] = source, offer, found.get(source, ())
        return chosen

    def _offers(
        self,
        history: DraftHistory,
        sequence: Sequence,
        found: dict[str, tuple[int, ...]],
        limit: int,
        prices: DraftPrices,
    ) -> dict[str, Offer]:
        """Lists what each source may draft. Drafts that the text could not afford to be wrong are left out."""
        offers, token_count, left = {}, sequence.token_count, history.allowance.left
        for source, tokens in found.items():
            length = history.lengths[source]
            if most := _affordable(length.limit(token_count, len(tokens)), left, prices):
                offers[source] = Offer(length.acceptance, most)
        if self._model is not None and self._may_ask_model(history, sequence):
            length, reading = history.lengths["model"], self._model.seconds_to_begin(sequence)
            room = length.limit(token_count, min(limit, self._model.room(sequence)))
            if self._is_common(history):
                left = left if self._ledger.common.affords(reading / prices.token_seconds) else 0.0
            else:
                left -= reading / prices.token_seconds
            if most := _affordable(room, left, prices, asks_model=True):
                offers["model"] = Offer(length.acceptance, most, True, reading / _steps_left(sequence))
            else:
                history.next_ask = token_count + FIRST_PAUSE
        if not offers and history.allowance.left <= 0:
            history.rest(sequence)
        return offers

    def _ask(self, model: DraftModel, asked: dict[Sequence, int], prices: DraftPrices) -> Drafts:
        """Lets the draft model draft, and charges for it."""
        readings = {sequence: model.seconds_to_begin(sequence) for sequence in asked}
        common = sum(seconds for sequence, seconds in readings.items() if self._is_common(self._histories[sequence]))
        rounds = [sum(length > place for length in asked.values()) for place in range(max(asked.values()))]
        expected = prices.first_draft + sum(map(prices.draft, rounds)) + sum(readings.values())
        started = self._clock()
        drafts = model.propose(asked)
        self._ledger.charge_model(self._shares(asked), self._clock() - started, expected, common, prices)
        for sequence in asked:
            self._histories[sequence].draft_count = len(drafts.get(sequence, ()))
        return drafts

    @staticmethod
    def _is_common(history: DraftHistory) -> bool:
        """Whether all texts together pay for the draft model's reading: it has not drafted for this one before."""
        return not history.lengths["model"].tested_count

    def _shares(self, lengths: Mapping[Sequence, int]) -> dict[DraftHistory, int]:
        """Returns the texts that have draft tokens, with their numbers of them."""
        return {self._histories[sequence]: length for sequence, length in lengths.items() if length}


def _affordable(limit: int, left: float, prices: DraftPrices, *, asks_model: bool = False) -> int:
    """Returns the number of draft tokens, at most `limit`, that lose no more than `left` tokens if all are wrong."""
    while limit > 0 and prices.worst_loss(limit, asks_model) > left:
        limit -= 1
    return limit


def _best(history: DraftHistory, offers: dict[str, Offer], prices: DraftPrices) -> tuple[str, Offer]:
    """Returns the source with the highest expected gain. Free drafts from text and grammar are tried before the draft
    model: if they are right, they stay right for longer."""
    if len(offers) == 1:
        return next(iter(offers.items()))
    untried = {
        source: offer for source, offer in offers.items() if not (offer.asks_model or history.lengths[source].tried)
    }
    candidates = untried or offers
    return max(candidates.items(), key=lambda pair: choose_lengths([pair[1]], prices)[1])


def _steps_left(sequence: Sequence) -> float:
    """Returns the number of steps over which the draft model's reading may be spread."""
    horizon = HORIZON if sequence.matcher is None else FREE_RUN
    return max(1.0, min(horizon, (sequence.longest_count - sequence.token_count) / TOKENS_PER_STEP))
