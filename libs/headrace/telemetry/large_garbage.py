"""Collection of what large requests leave behind.

An error refers to the frames that it passed, and these to the request, often in a circle. Eight megabytes of text are
two objects to the garbage collector, which waits for hundreds.
"""

import asyncio
import gc

LARGE_BYTES = 512 * 1024
PAUSE_SECONDS = 0.05
"""Seconds after the end of a request at which nothing of it is in use any more."""


def collect_soon(byte_count: int) -> None:
    """Collects garbage soon after the end of a request of so many bytes, if it was large. Takes a few milliseconds."""
    if byte_count >= LARGE_BYTES:
        asyncio.get_running_loop().call_later(PAUSE_SECONDS, gc.collect)
