"""SchedulerService: converts, calls, converts."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import grpc

from headrace.scheduler.core.explanation import told
from headrace.scheduler.gateway_session import GatewaySession
from headrace.scheduler.leases import Leases
from headrace.scheduler.prefixes import Prefixes
from headrace.scheduler.scaling.servicer import KedaScaler
from headrace.scheduler.scheduler import Scheduler
from headrace.scheduler.translation import to_journal_entry, to_model_demand, to_queues, to_worker_view
from headrace.v1 import scheduler_pb2 as pb
from headrace.v1 import scheduler_pb2_grpc
from headrace.v1.keda import externalscaler_pb2_grpc

Context = grpc.aio.ServicerContext[Any, Any]


def bind(server: grpc.aio.Server, servicer: "SchedulerServicer", scaler: KedaScaler) -> None:
    """Adds the services of a scheduler to a server."""
    scheduler_pb2_grpc.add_SchedulerServiceServicer_to_server(servicer, server)
    externalscaler_pb2_grpc.add_ExternalScalerServicer_to_server(scaler, server)


class SchedulerServicer(scheduler_pb2_grpc.SchedulerServiceServicer):
    """Serves one scheduler to gateways."""

    def __init__(self, scheduler: Scheduler, leases: Leases, prefixes: Prefixes, scheduler_id: str) -> None:
        self._scheduler = scheduler
        self._leases = leases
        self._prefixes = prefixes
        self._scheduler_id = scheduler_id

    async def Schedule(  # noqa: N802
        self, request_iterator: AsyncIterator[pb.ScheduleRequest], context: Context
    ) -> AsyncIterator[pb.ScheduleResponse]:
        session = GatewaySession(self._scheduler, self._leases, self._prefixes, self._scheduler_id)
        reader = asyncio.create_task(session.read_commands(request_iterator), name="schedule-reader")
        try:
            async with contextlib.aclosing(session.responses()) as responses:
                async for response in responses:
                    yield response
        finally:
            reader.cancel()
            with contextlib.suppress(asyncio.CancelledError, grpc.aio.AioRpcError):
                await reader
            await session.close()

    async def GetSchedule(self, request: pb.GetScheduleRequest, context: Context) -> pb.GetScheduleResponse:  # noqa: N802
        now = self._scheduler.clock()
        workers = [
            to_worker_view(worker, model, now)
            for model, desk in self._scheduler.core.desks.items()
            for worker in desk.fleet.workers.values()
        ]
        return pb.GetScheduleResponse(queues=to_queues(self._scheduler.queues()), workers=workers)

    async def Explain(  # noqa: N802
        self, request: pb.ExplainRequest, context: Context
    ) -> pb.ExplainResponse:
        now = self._scheduler.clock()
        request_id, journal = request.request_id, self._scheduler.journal
        lines = [line for entry in journal.about(request_id) for line in told(entry, request_id, now)]
        return pb.ExplainResponse(entries=map(to_journal_entry, lines))

    async def GetDemand(  # noqa: N802
        self, request: pb.GetDemandRequest, context: Context
    ) -> pb.GetDemandResponse:
        now, scheduler = self._scheduler.clock(), self._scheduler
        desks = scheduler.core.desks.items()
        demands = [to_model_demand(model, desk.demand, scheduler.fence_of(model), now) for model, desk in desks]
        return pb.GetDemandResponse(demands=demands)
