"""Errors that grpc hands to an event loop of which no test is to blame."""

import asyncio
from typing import Any

LEFTOVERS = frozenset({"Event loop is closed", "aclose(): asynchronous generator is already running"})
"""Messages about calls of an earlier test, of whose end grpc tells the next loop; and about whoever feeds a call whose
connection broke, whom grpc leaves to the garbage collector."""


class ForgivingLoop(asyncio.SelectorEventLoop):
    """An event loop that keeps those errors from the test that runs when they come, which would fail. The process of a
    service logs them."""

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not (isinstance(error, RuntimeError) and str(error) in LEFTOVERS):
            super().call_exception_handler(context)


ANYIO_BACKEND = ("asyncio", {"loop_factory": ForgivingLoop})
"""Backend for the fixture `anyio_backend`."""
