"""Limits of keys: what a request may use is set aside before it runs, and settled with what it used."""

import asyncio
import contextlib
from collections.abc import Callable

from prometheus_client import Counter

from headrace.access.key_record import KeyRecord
from headrace.errors import RateLimited
from headrace.gateway.access.limits.key_budget import PLACE_SECONDS, Refusal, Spending
from headrace.gateway.access.limits.limit_writer import LimitWriter
from headrace.gateway.access.limits.rate_headers import rate_headers
from headrace.gateway.access.limits.reservation import Reservation
from headrace.gateway.access.limits.shared_budgets import SharedBudgets

RENEW_SECONDS = PLACE_SECONDS / 3
CLOSE_SECONDS = 1.0

RATE_LIMITED = Counter("headrace_rate_limited_requests", "Requests beyond a limit of their key", ["limit"])


class Limiter:
    """Limits requests together with the other gateways, or alone while NATS is away."""

    def __init__(self, shared: SharedBudgets, gateway: str) -> None:
        """`gateway`: incarnation of this gateway, unique among all."""
        self._shared = shared
        self._gateway = gateway
        self._writers: dict[str, LimitWriter] = {}

    @property
    def is_alone(self) -> bool:
        """Whether this gateway counts without the others."""
        return self._shared.is_alone

    def expects(self, key: KeyRecord, token_count: int) -> bool:
        """Whether a request is likely to be granted, as far as this gateway knows."""
        return self._writer(key).expects(key.limits, Spending(1, token_count))

    async def reserve(
        self, key: KeyRecord, token_count: int, tell: Callable[[dict[str, str]], None] = lambda _: None
    ) -> Reservation:
        """Reserves one request and its tokens. `tell` takes headers with the remaining limits. Raises RateLimited."""
        writer = self._writer(key)
        wanted = Spending(1, token_count)
        verdict = await writer.ask(key.limits, wanted)
        tell(rate_headers(key.limits, verdict.budget))
        if verdict.refusal is not None:
            raise _error(key, verdict.refusal, wanted)
        return Reservation(wanted, writer.give_back)

    def _writer(self, key: KeyRecord) -> LimitWriter:
        writer = self._writers.get(key.id)
        if writer is None:
            writer = self._writers[key.id] = LimitWriter(key.id, self._gateway, self._shared)
        return writer

    async def watch(self) -> None:
        """Renews places, and writes what could not be written before, until cancelled."""
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            for writer in self._writers.values():
                writer.renew()

    async def close(self) -> None:
        """Waits, for at most CLOSE_SECONDS, until everything is written."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await asyncio.gather(*(writer.wait_until_written() for writer in self._writers.values()))


def _error(key: KeyRecord, refusal: Refusal, wanted: Spending) -> RateLimited:
    limit, retry_after = refusal.limit, refusal.retry_after
    RATE_LIMITED.labels(limit="concurrency" if limit is None else limit.name).inc()
    if limit is None:
        return RateLimited(
            f"{key.limits.concurrency} requests of this key run already, the most that may run at once: "
            "send this one again when another has ended",
            stage="limit",
            retry_after=retry_after,
        )
    if retry_after is None:
        return RateLimited(
            f"this request may need {wanted.of(limit)} tokens, prompt and output together, and this key has "
            f"{limit.capacity} per {limit.period}: shorten the prompt, or set max_tokens to less",
            stage="limit",
        )
    return RateLimited(
        f"this key has {limit.capacity} {limit.resource} per {limit.period}, and this request needs "
        f"{wanted.of(limit)}, more than are left: try again in {retry_after:.3g} s",
        stage="limit",
        retry_after=retry_after,
    )
