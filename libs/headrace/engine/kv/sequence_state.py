"""The state that a running sequence keeps beside its blocks."""

from dataclasses import dataclass, field
from typing import NamedTuple

MAX_CAPTURES = 2
"""Copies of the state of one sequence in one step at most: snapshots where other texts continued differently, and at
its end, or one of these and the state before draft tokens."""


class DraftSlots(NamedTuple):
    """Slots of a step that computes draft tokens. The state that it continues stays as it is."""

    known: int
    """Slot of the state behind the last token that is no draft: what remains where a draft token is wrong."""
    drafted: int
    """Slot of the state behind the last draft token: what remains where all are right."""


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
    drafts: DraftSlots | None = None
    """Slots for a step with draft tokens. None: the next one has none."""
    retraces: bool = False
    """Whether the state is behind an earlier token than the last step computed: of the draft tokens after it, only the
    first were right. The next step computes these once more."""

    @property
    def slots(self) -> tuple[int, ...]:
        """All slots that it owns. That of its origin belongs to the prefix cache."""
        return (self.slot, *self.captures.values(), *(self.drafts or ()))

    def due_captures(self, start: int, end: int) -> list[int]:
        """Returns the numbers of tokens behind which a step of tokens `start` to `end` takes snapshots."""
        return [count for count in self.captures if start < count <= end]

    def moves(self, start: int, end: int, draft_count: int = 0) -> list[int]:
        """Returns what a step of tokens `start` to `end` and draft tokens does: the slot that it continues, -1 for a
        new text; the slot that it leaves its state in; and for each of MAX_CAPTURES the number of its tokens behind
        which it copies the state, 0 for none, and the slot of that copy."""
        source, target, copies = self.slot, self.slot, []
        if start == self.origin_count:
            source = -1 if self.origin_slot is None else self.origin_slot
        if draft_count and self.drafts is not None:
            target = self.drafts.drafted
            copies.append((end - start, self.drafts.known))
        copies += [(count - start, self.captures[count]) for count in self.due_captures(start, end + draft_count)]
        copies += [(0, target)] * (MAX_CAPTURES - len(copies))
        return [source, target, *(number for copy in copies[:MAX_CAPTURES] for number in copy)]
