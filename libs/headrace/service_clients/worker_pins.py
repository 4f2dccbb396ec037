"""Worker pins: models that workers keep awake."""

import contextlib
from collections.abc import Callable, Sequence

from headrace.errors import HeadraceError, NotFound
from headrace.rpc.channel import Channel
from headrace.service_clients.worker import set_pin

PIN_SECONDS = 10.0


async def pin_everywhere(workers: Sequence[Callable[[], Channel]], model: str, *, is_pinned: bool) -> None:
    """Has all workers of a model keep it awake, or let it take turns. `workers`: open a channel to each. Raises
    HeadraceError where one of them cannot, and sets the others back."""
    if not workers:
        raise NotFound(f"no worker runs {model}: an adapter stays in memory with its model, so pin the model instead")
    for index, open_channel in enumerate(workers):
        try:
            await set_pin(open_channel(), model, PIN_SECONDS, is_pinned=is_pinned)
        except HeadraceError:
            for agreed in workers[:index]:
                with contextlib.suppress(HeadraceError):
                    await set_pin(agreed(), model, PIN_SECONDS, is_pinned=not is_pinned)
            raise
