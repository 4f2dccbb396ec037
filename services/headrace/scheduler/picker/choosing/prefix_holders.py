"""Endpoints that probably hold the beginning of a prompt: they were sent one that began alike."""

from collections import OrderedDict
from collections.abc import Iterator, Sequence

ALL = -1
"""Every endpoint, as a set of bits."""


class PrefixHolders:
    """Remembers, for each endpoint, the newest pieces of prompts that it was sent, by their chained hashes. The holders
    of a piece are the bits of a number, so that a prompt that all endpoints hold costs no more than one of few."""

    def __init__(self, max_count: int) -> None:
        """`max_count`: pieces that are remembered of each endpoint."""
        self._max_count = max_count
        self._pieces: dict[str, OrderedDict[int, None]] = {}
        """Pieces of each endpoint, the newest last."""
        self._holders: dict[int, int] = {}
        """Bits of the endpoints that hold each piece."""
        self._bits: dict[str, int] = {}
        self._names: dict[int, str] = {}
        """Endpoints by the position of their bits."""

    def __len__(self) -> int:
        return len(self._holders)

    def held(self, chain: Sequence[int]) -> dict[str, int]:
        """Returns the leading pieces of a prompt that each endpoint holds."""
        counts: dict[str, int] = {}
        going = ALL if chain else 0
        for count, piece in enumerate(chain):
            still = going & self._holders.get(piece, 0)
            if count and still != going:
                counts.update(dict.fromkeys(self._named(going & ~still), count))
            going = still
            if not going:
                break
        counts.update(dict.fromkeys(self._named(going), len(chain)))
        return counts

    def note(self, endpoint: str, chain: Sequence[int]) -> None:
        """Notes that an endpoint was sent a prompt. Its first pieces are forgotten last."""
        pieces, bit = self._pieces.setdefault(endpoint, OrderedDict()), self._bit(endpoint)
        for piece in reversed(chain[: self._max_count]):
            pieces[piece] = None
            pieces.move_to_end(piece)
            self._holders[piece] = self._holders.get(piece, 0) | bit
        while len(pieces) > self._max_count:
            self._drop(bit, pieces.popitem(last=False)[0])

    def forget(self, endpoint: str) -> None:
        """Forgets an endpoint, whose memory is empty when it comes again."""
        if (bit := self._bits.pop(endpoint, 0)) == 0:
            return
        for piece in self._pieces.pop(endpoint):
            self._drop(bit, piece)
        del self._names[bit.bit_length() - 1]

    def _bit(self, endpoint: str) -> int:
        """Returns the bit of an endpoint, which is the first free one if it is new."""
        if endpoint not in self._bits:
            position = next(number for number in range(len(self._names) + 1) if number not in self._names)
            self._bits[endpoint], self._names[position] = 1 << position, endpoint
        return self._bits[endpoint]

    def _drop(self, bit: int, piece: int) -> None:
        holders = self._holders[piece] & ~bit
        if holders:
            self._holders[piece] = holders
        else:
            del self._holders[piece]

    def _named(self, bits: int) -> Iterator[str]:
        while bits:
            lowest = bits & -bits
            yield self._names[lowest.bit_length() - 1]
            bits ^= lowest
