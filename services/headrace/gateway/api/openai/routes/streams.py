"""The route /headrace/streams: the rest of a stream whose connection broke."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Protocol
from urllib.parse import parse_qs

from headrace.errors import InvalidRequest, NotFound
from headrace.gateway.http.error_body import error_body
from headrace.gateway.http.exchange import Handler, HttpExchange
from headrace.gateway.request.client_timeout import TIMEOUT_HEADER, client_timeout
from headrace.gateway.resumption.event_id import EventId
from headrace.gateway.resumption.journals import Journals
from headrace.gateway.resumption.resumption import Resumption

PATH = "/headrace/streams/"
LAST_EVENT_HEADER = "last-event-id"
Resume = Callable[[HttpExchange, Resumption], Awaitable[None]]
"""Answers with the rest of a stream. Raises HeadraceError."""


class ResumingGroup(Protocol):
    """Endpoints whose streams can be resumed."""

    def resuming(self) -> Mapping[str, Resume]:
        """Returns the handlers that continue streams, by the paths that began them."""


class StreamRoutes:
    """Continues streams of any gateway, with the handlers that began them."""

    describe_error = staticmethod(error_body)
    scopes = frozenset({"generate"})

    def __init__(self, journals: Journals, groups: Iterable[ResumingGroup]) -> None:
        self._journals = journals
        self._resuming = {path: resume for group in groups for path, resume in group.resuming().items()}

    def handlers(self) -> Mapping[str, Mapping[str, Handler]]:
        return {PATH + "{name}": {"GET": self.resume}}

    async def resume(self, exchange: HttpExchange) -> None:
        """Sends the events after the one that the client has last. Raises HeadraceError."""
        resumption = await self._journals.find(
            exchange.path.removeprefix(PATH),
            exchange.caller,
            place_of(exchange.query, exchange.header(LAST_EVENT_HEADER)),
        )
        handler = self._resuming.get(resumption.request.path)
        if handler is None:
            raise NotFound(f"streams of {resumption.request.path} are not read here: see that API, or ask again")
        exchange.take_terms(resumption.terms(client_timeout(exchange.header(TIMEOUT_HEADER))))
        await handler(exchange, resumption)


def place_of(query: bytes, header: str | None) -> EventId | None:
    """Reads the header that browsers send when they connect again to the same address (HTML, 9.2), or else `after`.
    None: neither is given. Raises InvalidRequest."""
    given = {name: values[-1] for name, values in parse_qs(query.decode("latin-1"), keep_blank_values=True).items()}
    if unknown := sorted(given.keys() - {"after"}):
        raise InvalidRequest(f"unknown parameter {unknown[0][:80]!r}; there is after")
    if header:
        return EventId.parse(header, LAST_EVENT_HEADER)
    return EventId.parse(given["after"], "after") if given.get("after") else None
