"""Asks one question over HTTP and notes what came of it, token by token. A failure is in the answer, not raised."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from headrace.client.streams.event_lines import EventLines

DEADLINE_SECONDS = 20.0
"""Deadline of every request, sent as x-headrace-timeout-ms."""
SLACK_SECONDS = 5.0
"""Seconds after its deadline at which a request without an end counts as hung."""
OK, HUNG, BROKEN = "ok", "hung", "connection"


@dataclass(frozen=True)
class Question:
    """A request whose answer is the same every time."""

    name: str
    path: str
    body: dict[str, Any]
    remembered: bool = False
    """Allows an answer out of the cache."""

    @property
    def key(self) -> str:
        """Equal for questions that have the same answer."""
        return f"{self.path} {self.body}"

    @property
    def streams(self) -> bool:
        return bool(self.body.get("stream"))


@dataclass
class Choice:
    """One choice of an answer, as far as it has come."""

    token_ids: list[int] = field(default_factory=list)
    text: str = ""
    finish_reason: str = ""
    logprobs: list[float] = field(default_factory=list)


@dataclass
class Answer:
    """The outcome of one question. Times are monotonic seconds."""

    question: Question
    start: float
    end: float = 0.0
    outcome: str = ""
    """`ok`, `hung`, `connection` for one that broke, or the code of an error."""
    message: str = ""
    choices: dict[int, Choice] = field(default_factory=dict)
    vectors: list[Any] = field(default_factory=list)
    event_times: list[float] = field(default_factory=list)
    """Times at which a stream brought tokens."""
    lines: EventLines = field(default_factory=EventLines)
    """Events of a stream so far, and the place at which it can be resumed."""

    @property
    def seconds(self) -> float:
        return self.end - self.start


Asker = Callable[[Question], Awaitable[Answer]]
"""Asks one question and returns what came of it."""


class Refused(Exception):
    """The platform answered with an error."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code)
        self.code, self.message = code, message


def asker(url: str) -> Asker:
    """Returns what asks the platform at `url`."""
    return partial(ask, url)


async def ask(url: str, question: Question, deadline: float = DEADLINE_SECONDS, answer: Answer | None = None) -> Answer:
    """Sends the question to the platform at `url` and reads to the end. Ends SLACK_SECONDS after `deadline` itself.

    `answer`: where to note it, for a caller that may give up in the middle. One that can be resumed is.
    """
    answer = answer or Answer(question, time.monotonic())
    try:
        async with asyncio.timeout(deadline + SLACK_SECONDS):
            await _converse(url, question, deadline, answer)
        answer.outcome = OK
    except TimeoutError:
        answer.outcome = HUNG
    except Refused as refusal:
        answer.outcome, answer.message = refusal.code, refusal.message
    except (OSError, EOFError, ValueError) as error:
        answer.outcome, answer.message = BROKEN, repr(error)
    answer.end = time.monotonic()
    return answer


async def _converse(url: str, question: Question, deadline: float, answer: Answer) -> None:
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    try:
        writer.write(_resuming_bytes(parts.netloc, answer) or request_bytes(parts.netloc, question, deadline))
        status, chunked = await _read_head(reader)
        if status != 200:
            raise _refusal(status, b"".join([part async for part in _body(reader, chunked)]))
        if question.streams:
            await _read_events(_body(reader, chunked), answer)
        else:
            _note_whole(json.loads(b"".join([part async for part in _body(reader, chunked)])), answer)
    finally:
        writer.transport.abort()


def request_bytes(host: str, question: Question, deadline: float = DEADLINE_SECONDS) -> bytes:
    """The whole request, for a connection of its own."""
    content = json.dumps(question.body).encode()
    cache = "on" if question.remembered else "off"
    head = (
        f"POST {question.path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\nconnection: close\r\n"
        f"x-headrace-timeout-ms: {round(deadline * 1000)}\r\nx-headrace-cache: {cache}\r\n"
        f"content-length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


def _resuming_bytes(host: str, answer: Answer) -> bytes:
    """Returns the request for the rest of a stream, or nothing where it has not begun or cannot be resumed."""
    path = answer.lines.resume_path
    return f"GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n".encode() if path else b""


async def _read_head(reader: asyncio.StreamReader) -> tuple[int, bool]:
    """The status, and whether the body comes in chunks."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    return int(head.split(b" ", 2)[1]), b"transfer-encoding: chunked" in head


async def _body(reader: asyncio.StreamReader, chunked: bool) -> AsyncIterator[bytes]:
    """Parts as they come. A body that breaks off raises EOFError."""
    if not chunked:
        yield await reader.read(-1)
        return
    while True:
        line = await reader.readline()
        if not line:
            raise EOFError("the connection broke in the middle of the answer")
        size = int(line, 16)
        part = await reader.readexactly(size + 2)
        if size == 0:
            return
        yield part[:-2]


async def _read_events(parts: AsyncIterator[bytes], answer: Answer) -> None:
    rest = b""
    answer.lines.reconnect()
    async for part in parts:
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            event = answer.lines.push(line.decode())
            if event is not None:
                _note_event(event, answer)
    if not answer.lines.is_done:
        raise EOFError("the stream ended without saying so")


def _note_event(event: dict[str, Any], answer: Answer) -> None:
    if "error" in event:
        raise Refused(str(event["error"]["code"]), event["error"]["message"])
    for choice in event["choices"]:
        if _note_choice(choice, answer):
            answer.event_times.append(time.monotonic())


def _note_whole(body: dict[str, Any], answer: Answer) -> None:
    if "choices" in body:
        for choice in body["choices"]:
            _note_choice(choice, answer)
    else:
        answer.vectors = [entry["embedding"] for entry in body["data"]]


def _note_choice(choice: dict[str, Any], answer: Answer) -> bool:
    """Adds a choice to the answer. Returns whether it brought tokens."""
    found = answer.choices.setdefault(choice["index"], Choice())
    said = choice.get("delta") or choice.get("message") or choice
    ids = choice.get("token_ids") or []
    found.token_ids += ids
    found.text += said.get("text") or said.get("content") or ""
    found.finish_reason = choice.get("finish_reason") or found.finish_reason
    logprobs = choice.get("logprobs") or {}
    found.logprobs += logprobs.get("token_logprobs") or [entry["logprob"] for entry in logprobs.get("content") or []]
    return bool(ids)


def _refusal(status: int, body: bytes) -> Refused:
    try:
        error = json.loads(body)["error"]
        return Refused(f"{status} {error['code']}", error["message"])
    except (ValueError, KeyError, TypeError):
        return Refused(f"{status}", body[:200].decode(errors="replace"))
