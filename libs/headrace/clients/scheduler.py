"""Calls the scheduler."""

from typing import Protocol

import grpc

from headrace.rpc.boundary import translated
from headrace.telemetry.call_metadata import outgoing_metadata
from headrace.v1 import scheduler_pb2, scheduler_pb2_grpc

STAGE = "schedule"
WORKER_DETAIL = "worker"
"""Name, among the details of an error, of the worker that did not take a request."""


class SchedulerClient(Protocol):
    """Every method raises HeadraceError; `timeout` is in seconds."""

    async def submit(self, request: scheduler_pb2.SubmitRequest, timeout: float) -> scheduler_pb2.SubmitResponse:
        """Waits for a place. Cancelling the task leaves the queue."""

    async def get_schedule(self, timeout: float) -> scheduler_pb2.GetScheduleResponse: ...


class GrpcSchedulerClient:
    """SchedulerClient over gRPC."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub: scheduler_pb2_grpc.SchedulerServiceAsyncStub = scheduler_pb2_grpc.SchedulerServiceStub(channel)

    async def submit(self, request: scheduler_pb2.SubmitRequest, timeout: float) -> scheduler_pb2.SubmitResponse:
        with translated(STAGE):
            return await self._stub.Submit(request, timeout=timeout, metadata=outgoing_metadata())

    async def get_schedule(self, timeout: float) -> scheduler_pb2.GetScheduleResponse:
        with translated(STAGE):
            return await self._stub.GetSchedule(scheduler_pb2.GetScheduleRequest(), timeout=timeout)
