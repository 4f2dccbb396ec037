"""Asks servers for their health."""

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc


async def is_serving(channel: grpc.aio.Channel, timeout: float, *, patient: bool = False) -> bool:
    """Whether the server answers SERVING within `timeout` seconds. Any failure is a no; of those to connect, only the
    last within the time if `patient`."""
    stub = health_pb2_grpc.HealthStub(channel)
    try:
        response = await stub.Check(health_pb2.HealthCheckRequest(), timeout=timeout, wait_for_ready=patient)
    except grpc.aio.AioRpcError:
        return False
    return bool(response.status == health_pb2.HealthCheckResponse.SERVING)


async def answers(channel: grpc.aio.Channel, timeout: float) -> bool:
    """Whether the server answers within `timeout` seconds, even if only that it does not serve."""
    stub = health_pb2_grpc.HealthStub(channel)
    try:
        await stub.Check(health_pb2.HealthCheckRequest(), timeout=timeout)
    except grpc.aio.AioRpcError as error:
        return error.code() not in (grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNAVAILABLE)
    return True
