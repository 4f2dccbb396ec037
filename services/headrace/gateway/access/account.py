"""The account of one request: what it may use is reserved before it runs; what it used is settled and recorded."""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

from msgspec import UNSET

from headrace.access.key_record import KeyRecord
from headrace.access.usage_record import UsageRecord
from headrace.errors import HeadraceError, InternalError, Overloaded, RequestCancelled, Unavailable
from headrace.errors.table import row_of
from headrace.gateway.access.limits.limiter import Limiter
from headrace.gateway.access.limits.reservation import Reservation
from headrace.gateway.access.prompt_blocks import PromptBlocks
from headrace.gateway.access.usage_book import UsageBook

FINISHED = "finished"
_NOT_SERVED = (Overloaded, Unavailable, InternalError)
"""Failures of the platform: a request that got nothing for one of them is not counted."""


class Account:
    """Counts what one request uses. Its end is settled and recorded once, however it comes."""

    def __init__(
        self,
        key: KeyRecord | None = None,
        blank: UsageRecord | None = None,
        limiter: Limiter | None = None,
        book: UsageBook | None = None,
        tell: Callable[[dict[str, str]], None] = lambda _: None,
        blocks: PromptBlocks | None = None,
    ) -> None:
        """`blank`: the record to fill in. `tell`: takes headers with the remaining limits. `blocks`: names the blocks
        of the prompt for the record. Without a limiter nothing is reserved, without a book nothing is recorded."""
        self._key = key
        self._blank = blank
        self._limiter = limiter
        self._book = book
        self._tell = tell
        self._blocks = blocks
        self._prompt: Sequence[int] = ()
        self._accepted = time.monotonic()
        self._prompt_count = self._cached_count = self._output_count = 0
        self._cached_places: dict[str, int] = {}
        self._cost = 0.0
        self._reservation: Reservation | None = None
        self._is_running = False

    def may_start(self, prompt_count: int, max_output_count: int) -> bool:
        """Whether a request had better be placed while `reserve` waits for NATS: it is likely to be granted."""
        if self._limiter is None or self._key is None or not self._key.limits:
            return False
        return self._limiter.expects(self._key, prompt_count + max_output_count)

    async def reserve(self, prompt_count: int, max_output_count: int) -> None:
        """Reserves the tokens of the prompts and the maximum that may be generated. Raises RateLimited."""
        if self._limiter is not None and self._key is not None and self._key.limits:
            token_count = prompt_count + max_output_count
            self._reservation = await self._limiter.reserve(self._key, token_count, self._tell)
        self._prompt_count, self._is_running = prompt_count, True

    def note_prompt(self, token_ids: Sequence[int]) -> None:
        """Notes the tokens of a request's only prompt."""
        self._prompt = token_ids

    def add(self, output_count: int) -> None:
        """Counts tokens that were generated."""
        self._output_count += output_count

    def add_cost(self, price: float) -> None:
        """Counts the price of an accelerator's time that went into the request."""
        self._cost += price

    def finish(self, cached_count: int = 0, cached_places: Mapping[str, int] = MappingProxyType({})) -> None:
        """Settles and records a request that is answered whole. To be called before the last bytes are sent, so that
        what a client has got is in the ledger of usage. `cached_places`: the cached tokens by the place of their KV."""
        self._cached_count = cached_count
        self._cached_places = {place: count for place, count in cached_places.items() if count}
        self._end(FINISHED)

    def bill(self, error: BaseException | None) -> tuple[int, int]:
        """Returns the tokens of the prompt and of the output that are counted if the request ends now, with an error if
        there is one."""
        is_counted = self._output_count > 0 or not isinstance(error, _NOT_SERVED)
        return (self._prompt_count, self._output_count) if is_counted else (0, 0)

    @contextlib.contextmanager
    def settled(self) -> Iterator[None]:
        """Settles and records the request at the end of the block, unless it is finished already."""
        error: BaseException | None = None
        try:
            yield
        except BaseException as caught:
            error = caught
            raise
        finally:
            self._end(FINISHED if error is None else _outcome(error), not isinstance(error, _NOT_SERVED))

    def _end(self, outcome: str, is_served: bool = True) -> None:
        if not self._is_running:
            return
        self._is_running = False
        is_counted = is_served or self._output_count > 0
        if self._reservation is not None:
            used = self._prompt_count + self._output_count if is_counted else 0
            self._reservation.settle(used, is_counted)
        if is_counted and self._book is not None and self._blank is not None:
            self._book.append(self._filled(self._blank, outcome))

    def _filled(self, blank: UsageRecord, outcome: str) -> UsageRecord:
        return UsageRecord(
            time=round(time.time(), 3),
            request_id=blank.request_id,
            key=blank.key,
            tenant=blank.tenant,
            model=blank.model,
            prompt_tokens=self._prompt_count,
            cached_tokens=self._cached_count,
            cached_tokens_from=self._cached_places or UNSET,
            output_tokens=self._output_count,
            outcome=outcome,
            seconds=round(time.monotonic() - self._accepted, 6),
            cost=round(self._cost, 12),
            hash_ids=UNSET if self._blocks is None else self._blocks.ids(blank.tenant, blank.model, self._prompt),
        )


def _outcome(error: BaseException) -> str:
    known = error if isinstance(error, Exception) else RequestCancelled()
    return row_of(known if isinstance(known, HeadraceError) else InternalError()).code
