"""Queues of the requests that run or wait, each in order: by urgency, then by arrival."""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from operator import attrgetter

from headrace.engine.batching.sequence import Sequence
from headrace.engine.contract.request import Urgency

_ORDER = attrgetter("order")


class SequenceQueues:
    """Holds each sequence in exactly one of four queues. Knows no blocks and no budget."""

    def __init__(self) -> None:
        self.running: list[Sequence] = []
        """Running sequences in order. The last one is the first to go when there is no room."""
        self.waiting: list[Sequence] = []
        """Waiting sequences in order."""
        self.held: list[Sequence] = []
        """Sequences whose grammar is not compiled yet."""
        self._ended: list[Sequence] = []
        """Resumed sequences that turned out to be complete already."""
        self._by_id: dict[str, Sequence] = {}
        self._arrival_count = 0

    def __len__(self) -> int:
        return len(self._by_id)

    def __contains__(self, request_id: str) -> bool:
        return request_id in self._by_id

    def __iter__(self) -> Iterator[Sequence]:
        return iter(self._by_id.values())

    @property
    def waiting_count(self) -> int:
        """Sequences that could be in the next step if there were room, those included that have only to be ended."""
        return len(self.waiting) + len(self._ended)

    @property
    def waiting_token_count(self) -> int:
        """Tokens to be read before their sequences decode."""
        return sum(count for sequence in self._by_id.values() if (count := sequence.remaining_count) > 1)

    @property
    def pausable(self) -> list[Sequence]:
        """Running sequences of the batch class, in order."""
        return self.running[bisect_left(self.running, (Urgency.BATCH, 0), key=_ORDER) :]

    def enqueue(self, sequence: Sequence) -> None:
        """Takes a new sequence in: to wait, unless its grammar is not there yet or it is complete."""
        self._arrive(sequence)
        self._by_id[sequence.request_id] = sequence
        if sequence.finish_reason is not None:
            self._ended.append(sequence)
        elif sequence.awaits_grammar:
            self.held.append(sequence)
        else:
            insort(self.waiting, sequence, key=_ORDER)

    def release(self, sequence: Sequence) -> None:
        """Lets a held sequence wait to run, as if it had arrived now."""
        self.held.remove(sequence)
        self._arrive(sequence)
        insort(self.waiting, sequence, key=_ORDER)

    def start_first(self) -> Sequence:
        """Lets the first waiting sequence run."""
        sequence = self.waiting.pop(0)
        insort(self.running, sequence, key=_ORDER)
        return sequence

    def stop_last(self) -> Sequence:
        """Lets the last running sequence wait."""
        sequence = self.running.pop()
        insort(self.waiting, sequence, key=_ORDER)
        return sequence

    def take_ended(self) -> list[Sequence]:
        """Returns the sequences that are to be ended without a step. They are held until removed, but not returned
        again."""
        ended, self._ended = self._ended, []
        return ended

    def remove(self, request_id: str) -> Sequence | None:
        """Forgets a sequence, if there is one."""
        sequence = self._by_id.pop(request_id, None)
        if sequence is not None:
            for queue in self._queues:
                if sequence in queue:
                    queue.remove(sequence)
        return sequence

    def check_invariants(self) -> None:
        """Raises AssertionError if a queue is out of order or a sequence is not in exactly one."""
        for queue in (self.running, self.waiting):
            if sorted(queue, key=_ORDER) != queue:
                raise AssertionError("sequences are out of order")
        queued = [sequence.request_id for queue in self._queues for sequence in queue]
        if sorted(queued) != sorted(self._by_id):
            raise AssertionError("a sequence is in no queue, or in two")

    @property
    def _queues(self) -> Iterable[list[Sequence]]:
        return (self.running, self.waiting, self._ended, self.held)

    def _arrive(self, sequence: Sequence) -> None:
        sequence.arrival = self._arrival_count
        self._arrival_count += 1
