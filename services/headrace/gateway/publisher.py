"""Questions that a gateway asks the others over NATS."""

from collections.abc import Sequence
from itertools import chain

from headrace.bus import subjects
from headrace.bus.bus import Bus
from headrace.gateway.peers.request_query import RequestQuery
from headrace.gateway.peers.translation import to_requests_asked
from headrace.v1.events_pb2 import RequestsTold


class GatewayInquirer:
    """Asks after requests."""

    def __init__(self, bus: Bus, gateway_id: str) -> None:
        self._bus = bus
        self._gateway_id = gateway_id

    async def ask(self, query: RequestQuery, count: int, seconds: float) -> Sequence[bytes]:
        """Returns the rows of all answers, `count` at most, that come within `seconds`."""
        subject = subjects.of(subjects.REQUESTS_ASKED, self._gateway_id)
        question = to_requests_asked(query, self._gateway_id)
        told = await self._bus.ask(subject, question, RequestsTold, count, seconds)
        return list(chain.from_iterable(each.rows for each in told))
