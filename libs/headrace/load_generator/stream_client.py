"""A streaming HTTP client that does as little as possible, so that a benchmark does not measure its own client.

One connection per request, HTTP/1.1 with chunked transfer (RFC 9112), server-sent events with LF line endings.
"""

import asyncio
import json
import ssl
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from headrace.errors import Unavailable
from headrace.settings.web.connection_options import trusting_context


@dataclass(slots=True)
class StreamRecord:
    """Arrival times of the parts of one stream, on the monotonic clock in seconds."""

    start: float
    token_times: list[float] = field(default_factory=list)
    """Arrival times of the events that carried text."""
    end: float = 0.0
    output_token_count: int = 0
    error: str = ""
    input_token_count: int = 0

    @property
    def ttft(self) -> float:
        """Time to the first token."""
        return self.token_times[0] - self.start

    @property
    def e2e(self) -> float:
        return self.end - self.start

    @property
    def itls(self) -> list[float]:
        """Times between consecutive events."""
        return [later - earlier for earlier, later in zip(self.token_times, self.token_times[1:], strict=False)]

    @property
    def tpot(self) -> float | None:
        """Mean time per token after the first; None for a single token."""
        if self.output_token_count < 2:
            return None
        return (self.token_times[-1] - self.token_times[0]) / (self.output_token_count - 1)


async def stream_completion(url: str, body: dict[str, Any], timeout: float, key: str = "") -> StreamRecord:
    """Runs one streaming completion and records when each event arrived. Records a failure instead of raising it.
    `key`: the API key to send, if there is one."""
    record = StreamRecord(time.monotonic())
    try:
        async with asyncio.timeout(timeout):
            await _run(url, body, record, key)
    except (OSError, TimeoutError, ValueError, asyncio.IncompleteReadError, Unavailable) as error:
        record.error = str(error) or type(error).__name__
    record.end = time.monotonic()
    return record


async def _run(url: str, body: dict[str, Any], record: StreamRecord, key: str) -> None:
    parts = urlsplit(url)
    is_secure = parts.scheme == "https"
    tls = (trusting_context(url) or ssl.create_default_context()) if is_secure else None
    port = parts.port or (443 if is_secure else 80)
    reader, writer = await asyncio.open_connection(parts.hostname, port, ssl=tls)
    try:
        content = json.dumps(body).encode()
        head = (
            f"POST {parts.path} HTTP/1.1\r\nhost: {parts.netloc}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(content)}\r\nconnection: close\r\n"
            + (f"authorization: Bearer {key}\r\n" if key else "")
            + "\r\n"
        )
        record.start = time.monotonic()
        writer.write(head.encode() + content)
        status = await reader.readline()
        headers = await reader.readuntil(b"\r\n\r\n")
        if b" 200 " not in status:
            rest = (await reader.read()).decode(errors="replace")
            raise Unavailable(f"{status.decode().strip()}: {rest[:300]}")
        if b"chunked" not in headers.lower():
            raise Unavailable("the answer is not a stream")
        await _read_events(reader, record)
    finally:
        # The answer is over. An orderly end of TLS waits for the server, and the loop may end before.
        writer.transport.abort()


async def _size_line(reader: asyncio.StreamReader) -> bytes:
    line = await reader.readline()
    if not line:
        raise Unavailable("the connection was dropped in the middle of the answer")
    return line


async def _read_events(reader: asyncio.StreamReader, record: StreamRecord) -> None:
    while size := int(await _size_line(reader), 16):
        chunk = (await reader.readexactly(size + 2))[:-2]
        now = time.monotonic()
        for event in chunk.split(b"\n\n"):
            if event.startswith(b'data: {"error"'):
                raise Unavailable(event.decode(errors="replace"))
            if b'"text":"' in event and b'"choices":[{' in event:
                record.token_times.append(now)
            if b'"completion_tokens":' in event:
                record.output_token_count = json.loads(event.partition(b"\n")[0][6:])["usage"]["completion_tokens"]
