"""Body of a request as it is put together, counted before it is parsed."""

import asyncio

from headrace.errors import PayloadTooLarge
from headrace.gateway.http.bodies.body_meter import SLICE_BYTES, BodyMeter


class CountedBody:
    """Parts of a JSON body, within its bounds."""

    def __init__(self, limit: int, max_elements: int) -> None:
        """`limit`: of bytes."""
        self._limit = limit
        self._meter = BodyMeter(max_elements)
        self._parts: list[bytes] = []
        self._size = 0

    async def add(self, part: bytes) -> None:
        """Takes a part, and lets other tasks run, however much has arrived already. Raises PayloadTooLarge, and
        InvalidRequest."""
        self._size += len(part)
        if self._size > self._limit:
            raise PayloadTooLarge(f"the body is larger than {self._limit} bytes")
        self._parts.append(part)
        for start in range(0, len(part), SLICE_BYTES):
            self._meter.feed(part[start : start + SLICE_BYTES])
            await asyncio.sleep(0)

    def whole(self) -> bytes:
        return b"".join(self._parts)
