"""Which worker gets which request: pure functions on a snapshot."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.scheduler.model_queue import Pending
from headrace.scheduler.worker_table import WorkerEntry

MAX_LOAD_LEAD = 8
"""Requests by which a worker may be ahead of the least loaded one for the sake of a prefix it holds."""


@dataclass(slots=True)
class _Room:
    entry: WorkerEntry
    free_count: int
    load: int


def place(
    batch: Sequence[Pending], workers: Sequence[WorkerEntry], prefixes: Mapping[str, Mapping[str, int]]
) -> tuple[dict[str, list[Pending]], list[Pending]]:
    """Spreads a batch over the workers.

    `prefixes` gives, by request id and worker id, the leading blocks held. The worker that holds most is taken unless
    it is more than MAX_LOAD_LEAD requests ahead of the least loaded: affinity never starves the others.
    Returns the members by worker, and those for whom there was no room.
    """
    rooms = [_Room(entry, entry.free_count, entry.open_count + entry.reserved_count) for entry in workers]
    placed: dict[str, list[Pending]] = {}
    left: list[Pending] = []
    for pending in batch:
        room = _choose(pending, rooms, prefixes.get(pending.request.generation.request_id, {}))
        if room is None:
            left.append(pending)
            continue
        room.free_count -= 1
        room.load += 1
        placed.setdefault(room.entry.worker_id, []).append(pending)
    return placed, left


def _choose(pending: Pending, rooms: Sequence[_Room], held: Mapping[str, int]) -> _Room | None:
    adapter = pending.request.generation.adapter
    open_rooms = [room for room in rooms if room.free_count > 0 and room.entry.has_adapter(adapter)]
    allowed = [room for room in open_rooms if room.entry.worker_id not in pending.excluded]
    candidates = allowed or open_rooms
    if not candidates:
        return None
    least = min(room.load for room in candidates)
    near = [room for room in candidates if room.load <= least + MAX_LOAD_LEAD]
    return min(near, key=lambda room: (-held.get(room.entry.worker_id, 0), room.load, room.entry.worker_id))
