"""A response of server-sent events that stays alive during silence and reports how it failed."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable

from headrace.errors import HeadraceError, RequestCancelled
from headrace.gateway.http.error_body import error_body
from headrace.gateway.http.exchange import Event, HttpExchange, data_event

_log = logging.getLogger(__name__)


def _failure(error: BaseException) -> Event:
    return data_event(error_body(error))


@contextlib.asynccontextmanager
async def event_stream(
    exchange: HttpExchange, heartbeat_seconds: float, failure: Callable[[BaseException], Event] = _failure
) -> AsyncIterator[None]:
    """Writes a comment during the block after every `heartbeat_seconds` without output. A failure before the first
    event is left to become an HTTP status; a later one is written as the last event, as `failure` puts it, and raised
    too."""
    beating = asyncio.create_task(exchange.keep_alive(heartbeat_seconds))
    try:
        yield
    except RequestCancelled:
        raise
    except Exception as error:
        if exchange.started:
            if not isinstance(error, HeadraceError):
                _log.exception("unexpected failure in a stream")
            await exchange.end_events(failure(error))
        raise
    finally:
        beating.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await beating
