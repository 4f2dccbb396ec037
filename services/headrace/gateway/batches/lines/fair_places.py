"""Places that tenants share: none takes all, and who has fewest is next."""

import asyncio
import contextlib
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator


class FairPlaces:
    """Semaphore with a share for each tenant: three quarters of the places, so that others begin at once."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._share = count - count // 4
        self._taken: Counter[str] = Counter()
        self._waiting: defaultdict[str, deque[asyncio.Future[None]]] = defaultdict(deque)

    @contextlib.asynccontextmanager
    async def place(self, tenant: str) -> AsyncIterator[None]:
        """Opens a block in which a tenant has a place, once there is one for it."""
        given = asyncio.get_running_loop().create_future()
        self._waiting[tenant].append(given)
        self._give()
        try:
            await given
            yield
        finally:
            if given.done() and not given.cancelled():
                self._free += 1
                self._taken[tenant] -= 1
            else:
                given.cancel()
            self._give()

    def _give(self) -> None:
        """Gives free places to waiting requests."""
        while self._free and (tenant := self._next()) is not None:
            given = self._waiting[tenant].popleft()
            if not given.done():
                self._free -= 1
                self._taken[tenant] += 1
                given.set_result(None)

    def _next(self) -> str | None:
        """Returns the tenant that waits and has fewest places, if it may have another."""
        self._taken += Counter()  # keeps only positive counts
        for tenant in [tenant for tenant, waiting in self._waiting.items() if not waiting]:
            del self._waiting[tenant]
        able = [tenant for tenant in self._waiting if self._taken[tenant] < self._share]
        return min(able, key=lambda tenant: self._taken[tenant], default=None)
