"""Unfailing work: tasks that run as long as the platform does, and are restarted if they fail."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

PAUSE_SECONDS = 1.0

_log = logging.getLogger(__name__)


async def keep_doing(work: Callable[[], Awaitable[None]], name: str, tell: Callable[[str], None]) -> None:
    """Runs work until it ends or is cancelled, and restarts it a moment after a failure: the platform keeps serving, so
    the work must not stop, nor a failure go unnoticed. `tell` gets a sentence for each."""
    while True:
        try:
            await work()
        except Exception as error:  # noqa: BLE001 - whatever it is, the platform serves on
            _log.exception("%s failed", name)
            tell(f"{name} failed, and is restarted: {error!r}")
            await asyncio.sleep(PAUSE_SECONDS)
        else:
            return
