"""Kinds of faults of KV tiers, and what they do to a record: the header and the content of a block."""

import enum
import random
from dataclasses import dataclass

from headrace.worker.transfer.kept.slot_header import HEADER_BYTES, SlotHeader

NAMED_BYTES = 40
"""Bytes of a header that mean something."""


class Kind(enum.StrEnum):
    """Everything that may happen to a block, or to a place that has some."""

    FLIP = "bit flip"
    TORN = "torn write"
    CUT = "truncation"
    STALE = "stale reference"
    TENANT = "wrong tenant"
    ADAPTER = "wrong adapter"
    WEIGHTS = "wrong weights"
    DEAD = "dead store"
    FULL = "full disk"
    SLOW = "slow store"
    EMPTY = "store restarted empty"


SHARES = dict.fromkeys(Kind, 100) | {Kind.DEAD: 40, Kind.FULL: 40, Kind.SLOW: 3, Kind.EMPTY: 2}
"""Frequencies of the kinds, in proportion: the last ones take milliseconds each."""
TIERS: dict[Kind, tuple[str, ...]] = dict.fromkeys(Kind, ("disk", "store", "worker")) | {
    Kind.STALE: ("memory", "disk", "store", "worker"),
    Kind.DEAD: ("store",),
    Kind.FULL: ("disk", "store"),
    Kind.SLOW: ("store",),
    Kind.EMPTY: ("store",),
}
"""Places that each kind happens to."""


@dataclass(frozen=True, slots=True)
class Record:
    """A block as a layout's disks and stores have it."""

    name: bytes
    content: bytes
    layout: str

    @property
    def data(self) -> bytes:
        """Header and content."""
        return SlotHeader.of(self.name, self.content, self.layout.encode()).data() + self.content


def flipped(data: bytes, dice: random.Random) -> bytes:
    """Changes a bit that means something."""
    changed = bytearray(data)
    place = dice.randrange(len(data) - HEADER_BYTES + NAMED_BYTES)
    changed[place if place < NAMED_BYTES else place - NAMED_BYTES + HEADER_BYTES] ^= 1 << dice.randrange(8)
    return bytes(changed)


def torn(data: bytes, other: bytes, dice: random.Random) -> bytes:
    """Ends as another one does, from a place within the content on."""
    place = dice.randrange(HEADER_BYTES, len(data))
    return data[:place] + other[place:]


def exchanged(data: bytes, other: Record, name: bytes, dice: random.Random) -> bytes:
    """Returns another block's record in the place of `name`: whole, under this one's header, or renamed."""
    way = dice.randrange(3)
    if way == 0:
        return other.data
    if way == 1:
        return data[:HEADER_BYTES] + other.content
    checksum = SlotHeader.of(other.name, other.content, other.layout.encode()).checksum
    return SlotHeader(name, checksum).data() + other.content


def damaged(kind: Kind, mine: Record, other: Record, dice: random.Random) -> bytes:
    """Returns a record as a fault leaves it. `other`: the one that takes its place, or a part of it."""
    match kind:
        case Kind.FLIP:
            return flipped(mine.data, dice)
        case Kind.TORN:
            return torn(mine.data, other.data, dice)
        case Kind.CUT:
            return mine.data[: dice.randrange(len(mine.data))]
        case _:
            return exchanged(mine.data, other, mine.name, dice)
