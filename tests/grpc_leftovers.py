"""Errors that grpc hands to an event loop of which no test is to blame."""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

LEFTOVERS = frozenset({"Event loop is closed", "aclose(): asynchronous generator is already running"})
"""Messages about calls of an earlier test, of whose end grpc tells the next loop; and about whoever feeds a call whose
connection broke, whom grpc leaves to the garbage collector."""


@contextlib.contextmanager
def leftovers_forgiven() -> Iterator[None]:
    """Keeps them from the test that runs when they come, which would fail. The process of a service logs them."""
    loop = asyncio.get_running_loop()
    usual = loop.get_exception_handler()

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if isinstance(context.get("exception"), RuntimeError) and str(context["exception"]) in LEFTOVERS:
            return
        if usual is None:
            loop.default_exception_handler(context)
        else:
            usual(loop, context)

    loop.set_exception_handler(handle)
    try:
        yield
    finally:
        loop.set_exception_handler(usual)
