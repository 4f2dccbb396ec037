"""The state that a running sequence keeps beside its blocks."""

from dataclasses import dataclass, field

MAX_CAPTURES = 2
"""Snapshots of one sequence in one step at most: where other texts continued differently, and at its end."""


@dataclass(slots=True)
class SequenceState:
    """Slots of one sequence. Knows numbers, no tensors."""

    slot: int
    """Slot of the state behind the last token that was computed."""
    origin_count: int = 0
    """Tokens of the prefix cache that the sequence began with."""
    origin_slot: int | None = None
    """Slot of the snapshot behind them, while it may be read. None: there is none, or it was read."""
    captures: dict[int, int] = field(default_factory=dict)
    """Slots of the snapshots that are to be taken, by the number of tokens before them."""
    last_snapshot: bytes = b""
    """Hash of the block whose snapshot was taken last behind output. Empty: none was."""

    def moves(self, start: int, end: int) -> list[int]:
        """Returns what a step of tokens `start` to `end` does: the slot that it continues, -1 for a new text; the
        slot that it leaves its state in; and for each of MAX_CAPTURES the number of its tokens behind which it copies
        the state, 0 for none, and the slot of that copy."""
        source = self.slot
        if start == self.origin_count:
            source = -1 if self.origin_slot is None else self.origin_slot
        moves = [source, self.slot]
        for count in [count for count in self.captures if start < count <= end][:MAX_CAPTURES]:
            moves += (count - start, self.captures[count])
        return moves + [0, self.slot] * (1 + MAX_CAPTURES - len(moves) // 2)
