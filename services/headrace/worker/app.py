"""Wiring of the worker."""

import contextlib
import sys
import time
from collections.abc import AsyncIterator

from headrace.lifecycle import Background, OpenBus, Service, open_nats
from headrace.v1 import worker_pb2_grpc
from headrace.worker.config import WorkerSettings
from headrace.worker.load_engine import load_engine
from headrace.worker.requests.runtime import Runtime
from headrace.worker.servicer import WorkerServicer
from headrace.worker.status.device_rates import device_rates
from headrace.worker.status.status_board import StatusBoard
from headrace.worker.stepping.watchdog import Patience, Watchdog, exit_hung
from headrace.worker.tells import WorkerPublisher

SWITCH_SECONDS = 0.0005
"""Longest that the event loop and the engine keep each other from running Python. The default is 5 ms, half a step."""


@contextlib.asynccontextmanager
async def open_app(settings: WorkerSettings, open_bus: OpenBus = open_nats) -> AsyncIterator[Service]:
    """Loads the model, starts its engine and yields the service."""
    sys.setswitchinterval(SWITCH_SECONDS)
    epoch = time.time_ns()
    engine = load_engine(settings)
    rates = device_rates(settings, engine.spec)
    runtime = Runtime(engine, settings.model, settings.attach_seconds, rates.hourly_price)
    bus = open_bus(settings)
    board = StatusBoard(runtime, settings.service_id, epoch, settings.model, rates)
    publisher = WorkerPublisher(board, bus, settings.service_id)
    servicer = WorkerServicer(runtime, board, settings.service_id, epoch)
    board.listen(publisher.on_change)
    runtime.start(board.on_change, publisher.on_blocks)
    patience = Patience(settings.step_seconds, settings.first_step_seconds)
    watchdog = Watchdog(runtime.thread, runtime.spec, patience, exit_hung)
    background = Background()
    try:
        await runtime.prove(settings.first_step_seconds)
        background.start(watchdog.watch(), "watchdog")
        background.watch(bus.start())
        background.start(publisher.beat(), "heartbeat")
        background.start(publisher.tell_blocks(), "blocks")
        yield Service(
            kind="worker",
            bus=bus,
            bind=lambda server: worker_pb2_grpc.add_WorkerServiceServicer_to_server(servicer, server),
            service_names=["headrace.v1.WorkerService"],
            epoch=epoch,
            model=settings.model,
            on_listening=board.advertise,
            drain=servicer.drain,
            background=background,
        )
    finally:
        await background.close()
        runtime.stop()
        await bus.close()
