"""The bookkeeper of one gateway: opens the accounts of its requests, which share a limiter and a book."""

from collections.abc import Callable

from headrace.access.key_record import KeyRecord
from headrace.access.usage_record import UsageRecord
from headrace.gateway.access.account import Account
from headrace.gateway.access.limits.limiter import Limiter
from headrace.gateway.access.prompt_blocks import PromptBlocks
from headrace.gateway.access.usage_book import UsageBook


class Bookkeeper:
    """Opens accounts, and keeps what they share going."""

    def __init__(
        self, limiter: Limiter | None = None, book: UsageBook | None = None, blocks: PromptBlocks | None = None
    ) -> None:
        """`book`: None where usage is not recorded. `blocks`: None where records say nothing about prompts."""
        self._limiter = limiter
        self._book = book
        self._blocks = blocks

    def open(
        self,
        key: KeyRecord | None,
        tenant: str,
        request_id: str,
        model: str,
        tell: Callable[[dict[str, str]], None],
    ) -> Account:
        """Opens the account of one request. `tell` takes headers with the remainder of the key's limits."""
        blank = UsageRecord(
            time=0.0,
            request_id=request_id,
            key=key.id if key else "",
            tenant=tenant,
            model=model,
            prompt_tokens=0,
            cached_tokens=0,
            output_tokens=0,
            outcome="",
            seconds=0.0,
        )
        return Account(key, blank, self._limiter, self._book, tell, self._blocks)

    async def watch(self) -> None:
        """Renews what limits hold, until cancelled."""
        if self._limiter is not None:
            await self._limiter.watch()

    async def close(self) -> None:
        """Writes pending records."""
        if self._limiter is not None:
            await self._limiter.close()
        if self._book is not None:
            self._book.close()

    def report(self) -> str:
        """Says, for people, who counts the limits of keys."""
        is_alone = self._limiter is None or self._limiter.is_alone
        return "counted by each gateway alone: NATS is away" if is_alone else "counted together"
