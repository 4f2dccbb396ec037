"""Leases in the key-value store of NATS: a name has one holder at a time, until the holder stops renewing it.

Each new holder gets a larger fencing number, so that a holder that was frozen and missed the takeover does no harm
(Kleppmann, How to do distributed locking, 2016). Clocks are never compared: each process measures on its own clock how
long an entry has been unchanged.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter

from google.protobuf.message import Message

from headrace.bus.bus import Bus, Store


@dataclass(frozen=True, slots=True)
class LeaseKind:
    """Bucket, keys and messages of leases of one kind."""

    store: Store
    message_type: type[Message]
    """Message with a field `fence` and the two string fields named below. An empty holder means a released lease."""
    holder_field: str
    name_field: str
    to_key: Callable[[str], str] = str


@dataclass(frozen=True, slots=True)
class Lease:
    """Lease as it was last seen in the store."""

    holder: str = ""
    fence: int = 0
    revision: int = 0
    """0 if the store has no entry."""
    since: float = -math.inf
    """Time at which this revision was first seen, or just before it was written. Monotonic seconds."""
    is_written: bool = False
    """Whether this table wrote the revision, so that no other process saw it before `since`."""


class LeaseTable:
    """Claims, renews and releases leases of one kind for one holder, and caches those of others. Callers set the
    deadlines."""

    def __init__(
        self, bus: Bus, kind: LeaseKind, holder: str, expiry: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`expiry`: seconds without renewal after which a lease may be taken over. `clock`: monotonic seconds."""
        self.holder = holder
        self.known: dict[str, Lease] = {}
        """Leases by name, as they were last seen. Any may be forgotten."""
        self._bus = bus
        self._kind = kind
        self._expiry = expiry
        self._clock = clock

    def is_safe(self, name: str) -> bool:
        """Whether this holder has the lease and it cannot have been taken over yet."""
        lease = self.known.get(name, Lease())
        return lease.is_written and not self._is_expired(lease)

    async def claim(self, name: str, known_fence: Callable[[], int]) -> Lease | None:
        """Takes a lease that is free or already this holder's, under a fence larger than the stored one and than
        `known_fence()`. Returns the lease, the current holder's lease if it is taken, or None if another process won
        the race. Raises StoreAway."""
        lease = await self.look(name)
        # An entry that cannot be decoded has neither holder nor fence, and may still be renewed by its owner.
        is_released = lease.holder == "" and lease.fence > 0
        if not (is_released or lease.holder == self.holder or self._is_expired(lease)):
            return lease
        is_claimed = await self.write(name, max(lease.fence, known_fence()) + 1, lease.revision)
        return self.known[name] if is_claimed else None

    async def renew(self, name: str) -> bool:
        """Renews a known lease. Returns False if its revision has changed. Raises StoreAway."""
        return await self.write(name, self.known[name].fence, self.known[name].revision)

    async def write(self, name: str, fence: int, revision: int) -> bool:
        """Writes this holder's lease if the stored revision is `revision` (0: no entry). Returns whether it was
        written. Raises StoreAway."""
        # Measured from before the write, so that this holder's lease expires before others consider it free.
        now = self._clock()
        written = await self._swap(name, self.holder, fence, revision)
        if written is not None:
            self.known[name] = Lease(self.holder, fence, written, now, is_written=True)
        return written is not None

    async def read(self, name: str) -> Lease:
        """Reads a lease without caching it. Raises StoreAway."""
        kind, known = self._kind, self.known.get(name, Lease())
        found = await self._bus.read(kind.to_key(name), kind.message_type, kind.store)
        if found is None or found.revision == known.revision:
            return Lease() if found is None else known
        return Lease(*attrgetter(kind.holder_field, "fence")(found.message), found.revision, self._clock())

    async def look(self, name: str) -> Lease:
        """Reads and caches a lease, with the time at which its revision was first seen. Raises StoreAway."""
        lease = self.known[name] = await self.read(name)
        return lease

    async def release(self, name: str) -> None:
        """Forgets a lease, and frees it in the store if this table wrote it. Raises StoreAway."""
        lease = self.known.pop(name, Lease())
        if lease.is_written:
            await self._swap(name, "", lease.fence, lease.revision)

    async def _swap(self, name: str, holder: str, fence: int, revision: int) -> int | None:
        kind = self._kind
        message = kind.message_type(**{kind.holder_field: holder, kind.name_field: name, "fence": fence})
        return await self._bus.swap(kind.to_key(name), message, revision, kind.store)

    def _is_expired(self, lease: Lease) -> bool:
        return self._clock() - lease.since >= self._expiry
