"""Call of a gRPC client."""

from dataclasses import dataclass
from typing import Any, TypeAlias

import grpc

from headrace.gateway.access.caller import Caller
from headrace.gateway.timing.request_record import RequestRecord

Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]


@dataclass(slots=True)
class GrpcCall:
    """Call of the public API, from its begin to its end."""

    context: Context
    record: RequestRecord
    caller: Caller
    has_written: bool = False
    """Whether a message of the answer was sent."""

    def seconds(self, limit: float) -> float:
        """Returns the seconds that the call has left, at most `limit`: those of a request without a deadline."""
        remaining = self.context.time_remaining()
        return limit if remaining is None else min(limit, remaining)
