"""Call of a client as the handlers of a JSON API see it, without the way it came."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeAlias

from headrace.domain.deadline import Deadline
from headrace.gateway.access.caller import Caller
from headrace.gateway.timing.request_record import RequestRecord


class ApiCall(Protocol):
    """Call over HTTP, or a line of a batch."""

    caller: Caller
    record: RequestRecord
    headers: dict[str, str]
    """Headers of the answer. May be extended until it starts."""
    started: bool
    """Whether the answer has begun."""

    def header(self, name: str) -> str | None:
        """Returns a header of the request, by its name in lower case."""

    def limit(self, deadline: Deadline) -> AbstractAsyncContextManager[None]:
        """Returns a block that ends at the deadline, and when the client leaves."""

    async def send_json(self, status: int, content: Any) -> None:
        """Sends the answer, whole."""


AnswerWhole: TypeAlias = Callable[[ApiCall, bytes], Awaitable[None]]
"""Answers a body with one JSON document. Raises HeadraceError."""
