"""Unfailing work: what follows a platform for as long as it runs, and is begun again where it fails."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

PAUSE_SECONDS = 1.0

_log = logging.getLogger(__name__)


async def keep_doing(work: Callable[[], Awaitable[None]], name: str, tell: Callable[[str], None]) -> None:
    """Does work until it ends or is cancelled, and begins again a moment after a failure: the platform serves
    meanwhile, so it must not end, and the failure must not stay unseen. `tell` gets a sentence for each."""
    while True:
        try:
            await work()
        except Exception as error:  # noqa: BLE001 - whatever it is, the platform serves on
            _log.exception("%s failed", name)
            tell(f"{name} failed, and begins again: {error!r}")
            await asyncio.sleep(PAUSE_SECONDS)
        else:
            return
