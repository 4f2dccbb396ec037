"""Thread in which long texts are searched, so that no other request waits for it."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar, TypeVarTuple

from headrace.errors import Overloaded

SHORT_LENGTH = 4096
"""Characters that are searched at once, on the event loop: it takes less time than a thread would need to begin."""
TEXT_LENGTH = 64
"""Characters in the time that the search of any text takes in addition to its length."""
WAIT_SECONDS = 30.0
"""Seconds within which a search must end, those before it included."""
RETRY_SECONDS = 1.0

Ts = TypeVarTuple("Ts")
T = TypeVar("T")


class SearchThread:
    """Searches one long text after another. Its work leaves the interpreter to others at every slice of a text."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="search")

    async def run(self, length: int, text_count: int, search: Callable[[*Ts], T], *arguments: *Ts) -> T:
        """Returns the result of a search in texts of so many characters together. Raises what it raises, and
        Overloaded."""
        if length + TEXT_LENGTH * text_count <= SHORT_LENGTH:
            return search(*arguments)
        searching = asyncio.get_running_loop().run_in_executor(self._thread, search, *arguments)
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                return await searching
        except TimeoutError:
            raise Overloaded(
                "too many long texts wait for the filter already: send this one again later",
                stage="filter",
                retry_after=RETRY_SECONDS,
            ) from None
