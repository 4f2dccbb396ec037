"""A conversation with a model over the OpenAI-compatible API."""

import contextlib
import json
import math
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any

import httpx2

from headrace.cli.target import key_headers
from headrace.client.streams.event_lines import FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS, RESUME_SECONDS, EventLines
from headrace.errors import InvalidRequest, Unavailable
from headrace.settings.web.connection_options import connection_options

READ_TIMEOUT = 600.0
CONTEXT_CODE = "context_length_exceeded"
STOPPING_CODES = ("unavailable", "overloaded")
"""Codes of errors after which a stream can be resumed."""
CHAT_PATH = "/v1/chat/completions"

BURST_SECONDS = 0.05
"""Time from the first token to the last within which a network delivers an answer at once, whatever made it."""


@dataclass(slots=True)
class AnswerSpeed:
    """Speed of an answer, as seen from here."""

    ttft_seconds: float | None = None
    seconds: float = 0.0
    token_count: int = 0

    @property
    def tokens_per_second(self) -> float | None:
        """Tokens per second after the first, or of the whole time where they came in one burst; None for answers too
        short to tell."""
        if self.ttft_seconds is None or self.token_count < 2 or self.seconds <= self.ttft_seconds:
            return None
        if self.seconds - self.ttft_seconds < BURST_SECONDS:
            return self.token_count / self.seconds
        return (self.token_count - 1) / (self.seconds - self.ttft_seconds)


class ChatHistory:
    """The turns so far. When they no longer fit the model's context, the oldest are dropped."""

    def __init__(self, url: str, settings: dict[str, Any], system: str | None, key: str = "") -> None:
        self._url = url
        self._headers = key_headers(key)
        self.settings = dict(settings)
        """Fields of the requests: the model, and how answers are made."""
        self.system = system or ""
        """System message. Empty: there is none."""
        self.turns: list[dict[str, str]] = []
        """Messages of both, the oldest first."""
        self.speed = AnswerSpeed()
        """Speed of the last answer."""
        self.dropped_count = 0
        """Turns, a question and its answer each, that were dropped for the last question."""

    def clear(self) -> None:
        """Forgets all turns."""
        self.turns = []

    def take_back(self) -> str:
        """Forgets the last turn, and returns its question. Raises InvalidRequest where there is none."""
        if not self.turns:
            raise InvalidRequest("there is no question yet")
        question = self.turns[-2]["content"]
        del self.turns[-2:]
        return question

    def ask(self, question: str) -> Generator[str]:
        """Yields the answer as it comes. What came stays in the conversation, even if reading stops. Raises
        Unavailable, or InvalidRequest for a question that is refused, which is then forgotten."""
        self.dropped_count = 0
        said: list[str] = []
        turns = [*self.turns, {"role": "user", "content": question}]
        while True:
            try:
                for text in self._stream(turns):
                    said.append(text)
                    yield text
            except _ContextFull as error:
                if len(turns) == 1:
                    raise InvalidRequest(error.message) from None
                del turns[:2]
                self.dropped_count += 1
                continue
            except (GeneratorExit, KeyboardInterrupt):
                # Ctrl-C mostly comes while the next text is waited for, here.
                self.turns = [*turns, {"role": "assistant", "content": "".join(said)}]
                raise
            self.turns = [*turns, {"role": "assistant", "content": "".join(said)}]
            return

    def _stream(self, turns: list[dict[str, str]]) -> Iterator[str]:
        """Yields the texts of an answer. One whose connection breaks is continued on another."""
        opening = [{"role": "system", "content": self.system}] if self.system else []
        streaming = {"stream": True, "stream_options": {"include_usage": True}}
        body = {**self.settings, **streaming, "messages": [*opening, *turns]}
        self.speed = AnswerSpeed()
        started, lines, pause = time.monotonic(), EventLines(), FIRST_PAUSE_SECONDS
        given_up = math.inf
        with httpx2.Client(timeout=READ_TIMEOUT, headers=self._headers, **connection_options(self._url)) as client:
            request = client.build_request("POST", self._url, json=body)
            while True:
                try:
                    for event in _events(client, request, lines):
                        given_up, pause = math.inf, FIRST_PAUSE_SECONDS
                        yield from self._texts(event, time.monotonic() - started)
                    return
                except (httpx2.HTTPError, _Stopping) as error:
                    given_up = min(given_up, time.monotonic() + RESUME_SECONDS)
                    if lines.resume_path is None or time.monotonic() > given_up:
                        raise _lost(error) from None
                time.sleep(pause)
                pause = min(2 * pause, MAX_PAUSE_SECONDS)
                lines.reconnect()
                request = client.build_request("GET", self._url.removesuffix(CHAT_PATH) + lines.resume_path)

    def _texts(self, chunk: dict[str, Any], seconds: float) -> Iterator[str]:
        if usage := chunk.get("usage"):
            self.speed.token_count = int(usage["completion_tokens"])
        for choice in chunk["choices"]:
            if text := choice["delta"].get("content"):
                self.speed.ttft_seconds = self.speed.ttft_seconds or seconds
                self.speed.seconds = seconds
                yield text


def _events(client: httpx2.Client, request: httpx2.Request, lines: EventLines) -> Iterator[dict[str, Any]]:
    """Yields the events of one connection. Raises httpx's errors where it breaks, and the error that an answer tells
    of."""
    response = client.send(request, stream=True)
    with contextlib.closing(response):
        if response.status_code != httpx2.codes.OK:
            response.read()
            raise _refusal(response.text)
        for line in response.iter_lines():
            event = lines.push(line)
            if event is not None and "error" in event:
                raise _refusal(json.dumps(event))
            if event is not None:
                yield event
            if lines.is_done:
                return
    raise httpx2.RemoteProtocolError("it ended in the middle of the answer")


def _lost(error: Exception) -> Unavailable:
    """Returns the error for an answer that no connection continues."""
    is_said = isinstance(error, _Stopping)
    return Unavailable(str(error) if is_said else f"the connection to the platform was lost: {error}")


class _Stopping(Exception):
    """The gateway stops, and another may continue its answer."""


class _ContextFull(Exception):
    """The turns do not fit the model's context."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def _refusal(body: str) -> Exception:
    """Returns the error that a body stands for."""
    try:
        error = json.loads(body)["error"]
        message = str(error["message"])
    except (ValueError, KeyError, TypeError):
        return Unavailable(body[:300])
    # Of these messages only the length of the rendered prompt can be wrong.
    if error.get("code") == CONTEXT_CODE or error.get("param") == "prompt":
        return _ContextFull(message)
    return _Stopping(message) if error.get("code") in STOPPING_CODES else Unavailable(message)
