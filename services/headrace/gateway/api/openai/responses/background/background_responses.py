"""Responses that this gateway writes in the background."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import aclosing

from headrace.errors import HeadraceError, InvalidRequest, NotEnabled, NotFound, Unavailable
from headrace.gateway.access.tenant import Tenant
from headrace.gateway.api.entry.http_admission import HttpAdmission
from headrace.gateway.api.entry.stream_start import StreamStart
from headrace.gateway.api.openai.responses.background.event_log import EventLog
from headrace.gateway.api.openai.responses.background.event_logs import EventLogs
from headrace.gateway.api.openai.responses.created_response import CreatedResponse
from headrace.gateway.api.openai.responses.response_archive import SIGN_OF_LIFE_SECONDS, ResponseArchive
from headrace.gateway.api.openai.responses.response_object import CANCELLED, IN_PROGRESS
from headrace.gateway.api.openai.responses.response_writer import ResponseWriter
from headrace.gateway.api.openai.responses.stored_response import StoredResponse
from headrace.gateway.api.openai.token_logprobs import Json
from headrace.gateway.http.error_body import error_body
from headrace.gateway.http.exchange import HttpExchange, typed_event
from headrace.gateway.resumption.journals import Journals
from headrace.gateway.resumption.resumption import Resumption
from headrace.lifecycle import Background

CANCEL_POLL_SECONDS = 0.5
"""Seconds between looks at whether a background response was cancelled, perhaps through another gateway."""
SIGN_OF_LIFE_INTERVAL = SIGN_OF_LIFE_SECONDS / 5
Create = Callable[[HttpExchange, StoredResponse, Resumption], Awaitable[CreatedResponse]]
"""Creates a response again from the request that a journal has. Raises HeadraceError."""
_log = logging.getLogger(__name__)


class BackgroundResponses:
    """Starts responses, continues those of gateways that are lost, and keeps the events of both for a while."""

    def __init__(
        self,
        writer: ResponseWriter,
        archive: ResponseArchive,
        admission: HttpAdmission,
        background: Background,
        journals: Journals | None,
    ) -> None:
        """`journals`: those of streams. None: no other gateway's response is continued."""
        self._writer = writer
        self._archive = archive
        self._admission = admission
        self._background = background
        self._journals = journals
        self._logs = EventLogs()

    async def start(self, created: CreatedResponse, start: StreamStart) -> EventLog:
        """Begins a response. Returns the log of its events. Raises InvalidRequest, and Unavailable where it could not
        be found later."""
        if created.body.store is False:
            raise InvalidRequest("a response in the background is stored: leave store out", param="store")
        tenant = created.call.caller.tenant
        is_noted = await self._archive.tell_running(tenant, created.id)
        if not is_noted or not await self._archive.put(tenant, created.stored):
            raise Unavailable("the response could not be stored, and could not be found later: send it again")
        return self._run(created, start)

    async def reopen(
        self, exchange: HttpExchange, path: str, stored: StoredResponse, create: Create
    ) -> EventLog | None:
        """Returns the log of a stored response. One that another gateway began continues here, from the tokens in its
        journal. None: there is no log, and no journal that the key of the caller may read."""
        tenant, response_id = exchange.caller.tenant, str(stored.response["id"])
        log = self._logs.find(tenant, response_id)
        if log is not None or self._journals is None or stored.response["status"] == CANCELLED:
            return log
        try:
            resumption = await self._journals.find(response_id, exchange.caller, None)
            exchange.take_terms(resumption.terms(None))
        except (NotFound, NotEnabled, Unavailable):
            return None
        created = await create(exchange, stored, resumption)
        await self._archive.tell_running(tenant, response_id)
        log = self._logs.find(tenant, response_id)
        if log is not None:
            return log
        return self._run(created, StreamStart(exchange, path, resumption.request.body, resumption))

    def forget(self, tenant: Tenant, response_id: str) -> None:
        """Drops the events of a response that was deleted."""
        self._logs.forget(tenant, response_id)

    def _run(self, created: CreatedResponse, start: StreamStart) -> EventLog:
        log = self._logs.open(created.call.caller.tenant, created.id)
        self._background.start(self._run_until_cancelled(created, start, log), f"response-{created.id}")
        return log

    async def _run_until_cancelled(self, created: CreatedResponse, start: StreamStart, log: EventLog) -> None:
        steps = self._write(created, start, log), self._wait_for_cancel(created), self._tell_running(created)
        tasks = [asyncio.create_task(step) for step in steps]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            log.close()

    async def _write(self, created: CreatedResponse, start: StreamStart, log: EventLog) -> None:
        try:
            async with (
                self._admission.open(
                    created.call, created.body, "chat", is_detached=True, answer=start.answer
                ) as envelope,
                aclosing(self._writer.events(created, envelope, start)) as events,
            ):
                async for event in events:
                    log.append(typed_event(event))
        except Exception as error:  # noqa: BLE001 - clients that ask for the response learn of it
            if not isinstance(error, HeadraceError):
                _log.exception("unexpected failure in a background response")
            await self._fail(created, error_body(error), log)

    async def _fail(self, created: CreatedResponse, error: Json, log: EventLog) -> None:
        for event in created.events.fail(error):
            log.append(typed_event(event))
            await self._archive.put(created.call.caller.tenant, created.stored)

    async def _wait_for_cancel(self, created: CreatedResponse) -> None:
        tenant = created.call.caller.tenant
        while not await self._archive.is_cancelled(tenant, created.id):  # noqa: ASYNC110 - perhaps through another
            await asyncio.sleep(CANCEL_POLL_SECONDS)

    async def _tell_running(self, created: CreatedResponse) -> None:
        while True:
            await asyncio.sleep(SIGN_OF_LIFE_INTERVAL)
            await self._archive.tell_running(created.call.caller.tenant, created.id)


def continued(stored: StoredResponse) -> Json:
    """Returns a response that continues here after its gateway was lost."""
    return stored.response | {"status": IN_PROGRESS, "error": None}
