"""Reaches a platform over its REST bridge."""

import asyncio
import contextlib
import math
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2

from headrace.client.answer import Answer, Chunk
from headrace.client.findings import Embeddings, Model, Ranked, Ranking
from headrace.client.http_bodies import Json, chunk_of, model_of, question_body, whole_answer
from headrace.client.http_errors import error_in, error_of
from headrace.client.options import Call, Question
from headrace.client.streams.event_lines import FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS, RESUME_SECONDS, EventLines
from headrace.client.transport import Input
from headrace.domain.deadline import Deadline
from headrace.errors import DeadlineExceeded, NotFound, Overloaded, StageFailed, Unavailable
from headrace.settings.web.connection_options import AUTHORITY_VARIABLE, connection_options, is_untrusted

PARTING_SECONDS = 1.0
"""Grace period for the platform's own timeout error to arrive."""
CONNECT_SECONDS = 10.0
MAX_CONNECTIONS = 1000
OK = 200


class HttpTransport:
    """Transport over HTTP/1.1, with server-sent events."""

    def __init__(self, addresses: Sequence[str], key: str, authority: Path | None) -> None:
        """`addresses`: gateways of one platform, of which the next is asked when the connection to one fails.
        `authority`: PEM file of certificates to trust instead of the system's. Raises ConfigError."""
        self._addresses = tuple(addresses)
        self._current = 0
        self._clients = [
            httpx2.AsyncClient(
                base_url=address,
                headers={"authorization": f"Bearer {key}"} if key else {},
                timeout=httpx2.Timeout(None, connect=CONNECT_SECONDS),
                limits=httpx2.Limits(max_connections=MAX_CONNECTIONS),
                **connection_options(address, authority),
            )
            for address in self._addresses
        ]

    @property
    def _address(self) -> str:
        return self._addresses[self._current]

    @property
    def _client(self) -> httpx2.AsyncClient:
        return self._clients[self._current]

    async def answer(self, call: Call, question: Question) -> Answer:
        found = await self._post(call, _path(question), question_body(call, question, is_stream=False))
        with self._understood():
            return whole_answer(call, found)

    async def stream(self, call: Call, question: Question) -> AsyncGenerator[Chunk, None]:
        body, finish_reason = question_body(call, question, is_stream=True), ""
        async with aclosing(self._resumed(call, _path(question), body)) as chunks:
            async for chunk in chunks:
                finish_reason = finish_reason or chunk.finish_reason
                if chunk.usage is not None:
                    yield Chunk(finish_reason=finish_reason, usage=chunk.usage)
                elif chunk.token_ids or chunk.text or chunk.reasoning or chunk.tool_calls:
                    yield replace(chunk, finish_reason="")

    async def embed(self, call: Call, inputs: Sequence[Input], dimensions: int | None) -> Embeddings:
        body: Json = {"model": call.model, "input": list(inputs)}
        body |= {} if dimensions is None else {"dimensions": dimensions}
        found = await self._post(call, "/v1/embeddings", body)
        with self._understood():
            vectors = tuple(tuple(entry["embedding"]) for entry in found["data"])
            return Embeddings(vectors, call.model, call.request_id, found["usage"]["prompt_tokens"])

    async def rerank(
        self, call: Call, query: str, documents: Sequence[str], top_n: int | None, instruct: str
    ) -> Ranking:
        body: Json = {"model": call.model, "query": query, "documents": list(documents), "return_documents": False}
        body |= ({} if top_n is None else {"top_n": top_n}) | ({"instruct": instruct} if instruct else {})
        found = await self._post(call, "/v1/rerank", body)
        with self._understood():
            placed = [(entry["index"], entry["relevance_score"]) for entry in found["results"]]
            ranked = tuple(Ranked(index, score, documents[index]) for index, score in placed)
            return Ranking(ranked, call.model, call.request_id, found["usage"]["total_tokens"])

    async def models(self, call: Call) -> list[Model]:
        found = await self.read(call, "/v1/models", {})
        with self._understood():
            return [model_of(entry) for entry in found["data"]]

    async def read(self, call: Call, path: str, parameters: Mapping[str, str]) -> dict[str, Any]:
        return await self._whole(call, self._request(call, "GET", path, None, parameters))

    async def close(self) -> None:
        for client in self._clients:
            await client.aclose()

    async def _resumed(self, call: Call, path: str, body: Json) -> AsyncGenerator[Chunk, None]:
        """Yields the chunks of a stream, over as many connections as it takes. Raises the error of the first that broke
        where no other continues it in time."""
        lines, broken, patience, pause = EventLines(), None, call.deadline, FIRST_PAUSE_SECONDS
        request = self._request(call, "POST", path, body)
        while True:
            try:
                async with aclosing(self._connected(call, request, lines)) as chunks:
                    async for chunk in chunks:
                        broken, pause = None, FIRST_PAUSE_SECONDS
                        yield chunk
                return
            except (Unavailable, Overloaded, NotFound) as error:
                if broken is None:
                    broken, patience = error, Deadline.after(min(RESUME_SECONDS, call.deadline.remaining))
                rest = lines.resume_path
                if rest is None or isinstance(error, StageFailed | NotFound) or patience.expired:
                    raise broken from None
            await asyncio.sleep(min(pause, patience.remaining))
            pause = min(2 * pause, MAX_PAUSE_SECONDS)
            lines.reconnect()
            request = self._request(call, "GET", rest, None)

    async def _connected(self, call: Call, request: httpx2.Request, lines: EventLines) -> AsyncGenerator[Chunk, None]:
        """Yields the chunks of one connection. Closing the generator ends it, which tells the platform that the reader
        is gone."""
        async with self._explained(call):
            response = await self._client.send(request, stream=True)
        try:
            await self._check(call, response)
            async for chunk in self._chunks(call, response, lines):
                yield chunk
        finally:
            await response.aclose()

    async def _post(self, call: Call, path: str, body: Json) -> Json:
        return await self._whole(call, self._request(call, "POST", path, body))

    async def _whole(self, call: Call, request: httpx2.Request) -> Json:
        async with self._explained(call):
            response = await self._client.send(request)
        await self._check(call, response)
        with self._understood():
            found: Json = response.json()
        return found

    def _request(
        self, call: Call, method: str, path: str, body: Json | None, parameters: Mapping[str, str] | None = None
    ) -> httpx2.Request:
        headers = {
            "x-request-id": call.request_id,
            "x-headrace-timeout-ms": str(max(1, math.ceil(call.deadline.remaining * 1000))),
        }
        if call.priority != "default":
            headers["x-headrace-class"] = call.priority
        return self._client.build_request(method, path, json=body, headers=headers, params=parameters)

    async def _check(self, call: Call, response: httpx2.Response) -> None:
        """Raises the error that a response tells of."""
        if response.status_code != OK:
            async with self._explained(call):
                content = await response.aread()
            raise error_of(response.status_code, response.headers, content)

    async def _chunks(self, call: Call, response: httpx2.Response, events: EventLines) -> AsyncIterator[Chunk]:
        """Yields the events of a stream up to its end. Raises the error that one of them tells of, and Unavailable
        where the end is missing."""
        lines = aiter(response.aiter_lines())
        while True:
            async with self._explained(call):
                line = await anext(lines, None)
            if line is None:
                raise Unavailable("the connection was dropped in the middle of the answer", stage="deliver")
            with self._understood():
                event = events.push(line)
            if event is not None and (error := error_in(event)) is not None:
                raise error
            if event is not None:
                with self._understood():
                    chunk = chunk_of(event)
                yield chunk
            elif events.is_done:
                return

    @contextlib.contextmanager
    def _understood(self) -> Iterator[None]:
        """Turns the errors of an answer that is not a platform's into Unavailable."""
        try:
            yield
        except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
            reason = f"{type(error).__name__}: {error}"
            raise Unavailable(f"no platform answers at {self._address}: what came is not one's ({reason})") from None

    @contextlib.asynccontextmanager
    async def _explained(self, call: Call) -> AsyncIterator[None]:
        """Bounds a wait by the deadline of its call, and turns failures of the connection into HeadraceErrors."""
        end = Deadline(call.deadline.at + PARTING_SECONDS)
        try:
            async with asyncio.timeout(end.remaining):
                yield
        except TimeoutError:
            raise DeadlineExceeded("the deadline passed while the platform was waited for") from None
        except httpx2.TransportError as error:
            failure = self._failure(error)
            self._current = (self._current + 1) % len(self._addresses)
            raise failure from None

    def _failure(self, error: httpx2.TransportError) -> Unavailable:
        """Returns the error for a connection that failed."""
        if not isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout):
            return Unavailable(f"the connection to {self._address} failed: {error or type(error).__name__}")
        if is_untrusted(error):
            message = f"the certificate of {self._address} is not trusted: name its authority with authority="
            return Unavailable(f"{message}, or in {AUTHORITY_VARIABLE}")
        return Unavailable(f"no platform answers at {self._address}: {error}")


def _path(question: Question) -> str:
    return "/v1/completions" if question.messages is None else "/v1/chat/completions"
