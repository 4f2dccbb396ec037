"""Lifecycle that all services share: start, ready, serve, drain, stop.

1. Build: the app connects its clients and loads its data.
2. Listen, with health red, so that no calls arrive yet.
3. Call itself, to make sure that the handlers answer.
4. Turn health green, then announce. In the other order, callers of an announced service without handlers would hang.
5. On SIGTERM or SIGINT: withdraw, turn health red, finish running work, refuse new calls, close in reverse order.
"""

import asyncio
import contextlib
import gc
import logging
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeVar

import uvloop

from headrace import failpoints
from headrace.domain.deadline import Deadline
from headrace.errors import TaskDied, Unavailable
from headrace.lifecycle.announcer import Announcer
from headrace.lifecycle.metrics_port import shown_metrics
from headrace.lifecycle.process_run import EXIT_TASK_DIED, run_process
from headrace.lifecycle.security import check_identity, credential_of, own_channel, security_of
from headrace.lifecycle.service import Service
from headrace.lifecycle.settings import ServiceSettings
from headrace.rpc.health import is_serving
from headrace.rpc.member_address import joined
from headrace.rpc.server import Server
from headrace.storage.private_files import keep_files_private
from headrace.telemetry.logs import configure_logging
from headrace.telemetry.traces import configure_tracing
from headrace.v1.events_pb2 import ServiceRegistered

SELF_CALL_TIMEOUT = 10.0
STOP_GRACE = 0.5
FORCE_SECONDS = 5.0
"""Seconds after running work was to have ended at which a process in which a task failed ends whatever it does."""

_log = logging.getLogger(__name__)
C = TypeVar("C", bound=ServiceSettings)
OpenApp = Callable[[C], AbstractAsyncContextManager[Service]]


def run(kind: str, schema: type[C], open_app: OpenApp[C]) -> None:
    """Runs a service process from start to stop: see `run_process`. Modules that are imported by then are never looked
    at by garbage collection, which may be off until then."""
    gc.freeze()
    gc.enable()
    keep_files_private()
    run_process(kind, schema, lambda settings: _work(settings, open_app))


def _work(settings: C, open_app: OpenApp[C]) -> None:
    configure_logging(settings.service_id, settings.log_level)
    check_identity(settings)
    failpoints.arm(settings.failpoints and settings.failpoints / settings.service_id)
    uvloop.run(_live(settings, open_app))


async def _live(settings: C, open_app: OpenApp[C]) -> None:
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    failure: TaskDied | None = None
    provider = configure_tracing(settings.service_id, settings.otlp_endpoint, settings.trace_sampler)
    with shown_metrics(settings.metrics_port and settings.metrics_port + settings.instance):
        async with open_app(settings) as service:
            _spare_collections()
            async with serving(settings, service):
                failure = await _until_over(stopping, service)
                _log.info("stopping")
                if failure is not None:
                    _end_by_force(settings.drain_seconds + FORCE_SECONDS)
    if provider is not None:
        provider.shutdown()
    if failure is not None:
        raise failure


async def _until_over(stopping: asyncio.Event, service: Service) -> TaskDied | None:
    """Waits for a signal to stop, for a service that has nothing to do any more, or for the failure that it returns."""
    failing = asyncio.create_task(service.background.failure())
    ends = [asyncio.create_task(event.wait()) for event in (stopping, service.over) if event is not None]
    try:
        await asyncio.wait({failing, *ends}, return_when=asyncio.FIRST_COMPLETED)
        return failing.result() if failing.done() else None
    finally:
        for waiting in (failing, *ends):
            waiting.cancel()


def _end_by_force(seconds: float) -> None:
    """Ends the process after `seconds`, should the broken part keep it from ending normally."""
    timer = threading.Timer(seconds, os._exit, (EXIT_TASK_DIED,))
    timer.daemon = True
    timer.start()


def _spare_collections() -> None:
    """Excludes everything loaded so far from garbage collection. Collecting it would take up to 80 ms with a model, in
    which every stream stalls."""
    gc.collect()
    gc.freeze()


@contextlib.asynccontextmanager
async def serving(settings: ServiceSettings, service: Service) -> AsyncIterator[str]:
    """Serves a built service for as long as the context is open; yields its advertised address."""
    security = security_of(settings, service)
    server = Server(
        service.bind,
        service.service_names,
        credential_of(settings),
        service.is_public,
        security,
        service.request_limits,
    )
    address = await server.start(settings.listen_address, settings.probe_address)
    advertised = settings.advertise_address or address
    service.on_listening(advertised)
    await server.set_serving(True)
    await _call_self(settings, service, settings.probe_address or address)
    announcers = [Announcer(service.bus, entry) for entry in _registrations(settings, service, advertised)]
    for announcer in announcers:
        announcer.start(service.background)
    service.background.start(_become_routable(server, service), "routable")
    _log.info("ready", extra={"address": advertised})
    try:
        yield advertised
    finally:
        await asyncio.gather(*(announcer.withdraw() for announcer in announcers))
        await server.set_serving(False)
        await service.drain(Deadline.after(settings.drain_seconds))
        await server.stop(STOP_GRACE)


async def _become_routable(server: Server, service: Service) -> None:
    if service.found is not None:
        await service.found.wait()
    await server.set_routable()


def _registrations(settings: ServiceSettings, service: Service, address: str) -> list[ServiceRegistered]:
    """Makes the entries of a process in the registry: its own, or one for each of its members."""
    members = service.members or {"": service.model}
    return [
        ServiceRegistered(
            service_id=name or settings.service_id,
            kind=service.kind,
            epoch=service.epoch,
            address=joined(address, name),
            pid=os.getpid(),
            model=model,
        )
        for name, model in members.items()
    ]


async def _call_self(settings: ServiceSettings, service: Service, address: str) -> None:
    host, _, port = address.rpartition(":")
    reachable = f"127.0.0.1:{port}" if host in ("0.0.0.0", "[::]") else address
    async with own_channel(settings, service, reachable) as channel:
        # On a busy machine it may take more than one attempt: each has only tenths of a second, see `rpc.options`.
        if not await is_serving(channel, SELF_CALL_TIMEOUT, patient=True):
            raise Unavailable(f"the service does not answer its own call on {address}")
