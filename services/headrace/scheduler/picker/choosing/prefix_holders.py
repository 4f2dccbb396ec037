"""Endpoints that probably hold the beginning of a prompt: they were sent one that began alike."""

from collections import OrderedDict
from collections.abc import Sequence


class PrefixHolders:
    """Remembers, for each endpoint, the newest pieces of prompts that it was sent, by their chained hashes."""

    def __init__(self, max_count: int) -> None:
        """`max_count`: pieces that are remembered of each endpoint."""
        self._max_count = max_count
        self._pieces: dict[str, OrderedDict[int, None]] = {}
        """Pieces of each endpoint, the newest last."""
        self._holders: dict[int, set[str]] = {}

    def __len__(self) -> int:
        return len(self._holders)

    def held(self, chain: Sequence[int]) -> dict[str, int]:
        """Returns the leading pieces of a prompt that each endpoint holds."""
        counts: dict[str, int] = {}
        going = self._holders.get(chain[0], set()) if chain else set()
        for count, piece in enumerate(chain, start=1):
            going = going & self._holders.get(piece, set())
            if not going:
                break
            counts.update(dict.fromkeys(going, count))
        return counts

    def note(self, endpoint: str, chain: Sequence[int]) -> None:
        """Notes that an endpoint was sent a prompt. Its first pieces are forgotten last."""
        pieces = self._pieces.setdefault(endpoint, OrderedDict())
        for piece in reversed(chain[: self._max_count]):
            pieces[piece] = None
            pieces.move_to_end(piece)
            self._holders.setdefault(piece, set()).add(endpoint)
        while len(pieces) > self._max_count:
            self._drop(endpoint, pieces.popitem(last=False)[0])

    def forget(self, endpoint: str) -> None:
        """Forgets an endpoint, whose memory is empty when it comes again."""
        for piece in self._pieces.pop(endpoint, ()):
            self._drop(endpoint, piece)

    def _drop(self, endpoint: str, piece: int) -> None:
        holders = self._holders[piece]
        holders.discard(endpoint)
        if not holders:
            del self._holders[piece]
