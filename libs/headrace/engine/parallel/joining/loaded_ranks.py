"""Wait until every rank of a group has read its weights, which can take one of them minutes longer than another."""

import time
from collections.abc import Callable
from typing import Any

from headrace.engine.parallel.shards.place import ShardPlace
from headrace.errors.tree import InternalError

MAX_LOAD_SECONDS = 3600.0
"""Maximum seconds that a rank which has loaded waits for the others."""
POLL_SECONDS = 0.05


def await_loaded(store: Any, place: ShardPlace, is_connected: Callable[[], bool]) -> None:
    """Tells the other ranks through torch's TCPStore that this one has loaded, and waits until all have, for as long as
    `is_connected` says so. Raises InternalError if the group ended meanwhile, or a rank takes too long."""
    store.set(_name(place.rank), b"")
    names = [_name(rank) for rank in range(place.world_size)]
    limit = time.monotonic() + MAX_LOAD_SECONDS
    while not store.check(names):
        if not is_connected():
            raise InternalError("the model's group ended while its processes were loading")
        if time.monotonic() > limit:
            late = [str(rank) for rank, name in enumerate(names) if not store.check([name])]
            raise InternalError(
                f"ranks {', '.join(late)} of the model's group did not load within {MAX_LOAD_SECONDS:.0f} s of rank "
                f"{place.rank}: see their output"
            )
        time.sleep(POLL_SECONDS)


def _name(rank: int) -> str:
    return f"loaded/{rank}"
