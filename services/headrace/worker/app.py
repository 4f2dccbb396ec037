"""Wiring of the worker."""

import contextlib
import sys
import time
from collections.abc import AsyncIterator
from functools import partial

from headrace.lifecycle import Background, OpenBus, Service, open_nats
from headrace.v1 import worker_pb2_grpc
from headrace.worker.config import WorkerSettings
from headrace.worker.hosting.engine_host import EngineHost
from headrace.worker.hosting.hosted_model import HostedModel
from headrace.worker.hosting.process_drain import ProcessDrain
from headrace.worker.hosting.servicer import HostServicer
from headrace.worker.publisher import WorkerPublisher
from headrace.worker.stepping.engine_crash import exit_after_crash

SWITCH_SECONDS = 0.0005
"""Longest that the event loop and the engine keep each other from running Python. The default is 5 ms, half a step."""


@contextlib.asynccontextmanager
async def open_app(settings: WorkerSettings, open_bus: OpenBus = open_nats) -> AsyncIterator[Service]:
    """Loads the models, starts their engines and yields the service."""
    sys.setswitchinterval(SWITCH_SECONDS)
    epoch = time.time_ns()
    host = EngineHost(settings)
    background = Background()
    process_drain = ProcessDrain(settings.drain_seconds, background)
    served: dict[str, HostedModel] = {}

    def pin(model: str, is_pinned: bool) -> None:
        host.pin(model, is_pinned=is_pinned)
        served[model].board.on_change()

    for model, engine in host.engines.items():
        served[model] = HostedModel(settings, model, host.ids[model], engine, epoch, process_drain.begin, pin)
    process_drain.include(served.values())
    bus = open_bus(settings)
    publishers = [WorkerPublisher(one.board, bus, one.worker_id) for one in served.values()]
    servicer = HostServicer({one.worker_id: one.servicer for one in served.values()})
    for one, publisher in zip(served.values(), publishers, strict=True):
        one.follow(partial(host.resident, one.model))
        one.board.listen(publisher.on_change)
        one.runtime.start(one.board.on_change, publisher.on_blocks)
    host.start(lambda model: served[model].moved(), exit_after_crash)

    def advertise(address: str) -> None:
        for one in served.values():
            one.advertise(address, is_member=bool(host.members))

    try:
        for one in served.values():
            await one.prove(is_proved=host.is_proved)
            background.start(one.watchdog.watch(), "watchdog")
        background.watch(bus.start())
        for publisher in publishers:
            background.start(publisher.beat(), "heartbeat")
            background.start(publisher.tell_blocks(), "blocks")
        yield Service(
            kind="worker",
            bus=bus,
            bind=lambda server: worker_pb2_grpc.add_WorkerServiceServicer_to_server(servicer, server),
            service_names=["headrace.v1.WorkerService"],
            epoch=epoch,
            model=settings.model,
            members=host.members,
            found=servicer.found,
            on_listening=advertise,
            over=process_drain.over,
            drain=process_drain.drain,
            background=background,
        )
    finally:
        await background.close()
        for one in served.values():
            await one.close()
        host.stop()
        await bus.close()
