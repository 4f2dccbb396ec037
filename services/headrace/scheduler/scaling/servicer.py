"""Scaler that KEDA asks how many workers a model needs (https://keda.sh/docs/latest/concepts/external-scalers).

It answers every caller, as health does: KEDA cannot show the credential of the platform. Where services have
certificates, it needs one of these.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, NoReturn

import grpc

from headrace.scheduler.scheduler import Scheduler
from headrace.v1.keda import externalscaler_pb2 as pb
from headrace.v1.keda import externalscaler_pb2_grpc

METRIC = "headrace-wanted-workers"
MODEL_KEY = "model"
"""Key, in the metadata of a trigger, of the model."""
OTHERS_KEY = "otherWorkers"
"""Key, in the metadata of a trigger, of the workers of the model that are not scaled."""
LOOK_SECONDS = 0.1
REPEAT_SECONDS = 10.0
"""Seconds after which a stream says again what has not changed."""
MAX_STREAMS = 256
MAX_DIGITS = 6

Context = grpc.aio.ServicerContext[Any, Any]


class KedaScaler(externalscaler_pb2_grpc.ExternalScalerServicer):
    """Serves the demand that the scheduler has found. While it is not known, calls fail: KEDA leaves the number as it
    is then."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._stream_count = 0

    async def IsActive(self, request: pb.ScaledObjectRef, context: Context) -> pb.IsActiveResponse:  # noqa: N802
        return pb.IsActiveResponse(result=await self._wanted(request, context) > 0)

    async def StreamIsActive(  # noqa: N802
        self, request: pb.ScaledObjectRef, context: Context
    ) -> AsyncIterator[pb.IsActiveResponse]:
        if self._stream_count >= MAX_STREAMS:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, f"{MAX_STREAMS} streams are open; try again later")
        self._stream_count += 1
        try:
            told, at, clock = False, float("-inf"), self._scheduler.clock
            while True:
                is_active = await self._wanted(request, context) > 0
                if is_active != told or clock() - at > REPEAT_SECONDS:
                    told, at = is_active, clock()
                    yield pb.IsActiveResponse(result=is_active)
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            self._stream_count -= 1

    async def GetMetricSpec(  # noqa: N802
        self, request: pb.ScaledObjectRef, context: Context
    ) -> pb.GetMetricSpecResponse:
        return pb.GetMetricSpecResponse(metricSpecs=[pb.MetricSpec(metricName=METRIC, targetSize=1, targetSizeFloat=1)])

    async def GetMetrics(self, request: pb.GetMetricsRequest, context: Context) -> pb.GetMetricsResponse:  # noqa: N802
        wanted = await self._wanted(request.scaledObjectRef, context)
        value = pb.MetricValue(metricName=METRIC, metricValue=wanted, metricValueFloat=wanted)
        return pb.GetMetricsResponse(metricValues=[value])

    async def _wanted(self, scaled: pb.ScaledObjectRef, context: Context) -> int:
        """Returns the workers that are wanted. Ends the call where the trigger names no model, or nothing is known."""
        model = scaled.scalerMetadata.get(MODEL_KEY, "")
        if not model:
            await _refuse(context, f"the metadata of the trigger of {scaled.name!r} lacks {MODEL_KEY}: a served model")
        desk = self._scheduler.core.desks.get(model)
        if desk is None or desk.demand.wanted is None or not desk.demand.is_fresh(self._scheduler.clock()):
            known = ", ".join(sorted(self._scheduler.core.desks)) or "none"
            message = f"the demand for {model!r} is not known: no worker of it was seen yet; models seen: {known}"
            await context.abort(grpc.StatusCode.UNAVAILABLE, message)
        others = scaled.scalerMetadata.get(OTHERS_KEY, "0")
        if not others.isdecimal() or len(others) > MAX_DIGITS:
            message = f"{OTHERS_KEY} of the trigger of {scaled.name!r} is {others[:20]!r}; it must be a count"
            await _refuse(context, message)
        return max(0, desk.demand.wanted - int(others))


async def _refuse(context: Context, message: str) -> NoReturn:
    await context.abort(grpc.StatusCode.INVALID_ARGUMENT, message)
    raise AssertionError
