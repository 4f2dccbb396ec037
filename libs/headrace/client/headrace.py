"""A client of a platform, over HTTP or over gRPC."""

import os
import re
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, Unpack, cast
from urllib.parse import quote, urlsplit

from headrace.client.answer import Answer, Chunk
from headrace.client.answer_stream import AnswerStream
from headrace.client.findings import Embeddings, Model, Ranking, RequestTrace, UsageRow
from headrace.client.grpc_transport import GrpcTransport
from headrace.client.http_bodies import trace_of
from headrace.client.http_transport import HttpTransport
from headrace.client.options import Call, CallOptions, ChatOptions, GenerationOptions, Question, check
from headrace.client.retries import Retries
from headrace.client.transport import Input, Transport
from headrace.domain.deadline import Deadline
from headrace.domain.message import Message
from headrace.errors import ConfigError, HeadraceError, InvalidRequest, Unavailable

DEFAULT_ADDRESS = "http://127.0.0.1:8000"
KEY_VARIABLE = "HEADRACE_API_KEY"
T = TypeVar("T")
_REQUEST_ID = re.compile(r"[!-~]{1,128}")


_USAGE_NAMES = {field.name for field in fields(UsageRow)} - {"group"}


class Headrace:
    """Calls a platform: `http://`, `https://`, `grpc://` or `grpcs://`, with the same results and the same errors.

    Use it in an `async with`, in one event loop. Every call takes `model`, `timeout`, `request_id` and `priority`, has
    a deadline that its retries share, and raises errors of `headrace.errors`; their `details` name the request id.
    A call that is cancelled, and a stream that is left, end the work on the platform too.
    """

    def __init__(
        self,
        address: str | Sequence[str] = DEFAULT_ADDRESS,
        *,
        key: str | None = None,
        model: str = "",
        timeout: float = 600.0,
        retries: int = 2,
        authority: Path | str | None = None,
    ) -> None:
        """`address`: that of the platform, or those of several of its gateways over HTTP: the next is asked when one
        does not answer, and resumes a stream that breaks. `key`: API key, default: HEADRACE_API_KEY. `model`: the one
        to ask, default: the first that is served. `timeout`: seconds of each call. `retries`: most of each call.
        `authority`: PEM file of certificates to trust instead of the system's. Raises ConfigError."""
        given = os.environ.get(KEY_VARIABLE, "") if key is None else key
        addresses = [address] if isinstance(address, str) else list(address)
        self._transport = _transport(addresses, given, None if authority is None else Path(authority).expanduser())
        self._model = model
        self._timeout = timeout
        self._retries = Retries(retries)
        self._first_models: dict[bool, str] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections. Calls that still run end as unavailable."""
        await self._transport.close()

    async def chat(self, messages: str | Sequence[Message], **options: Unpack[ChatOptions]) -> Answer:
        """Answers a conversation, or a single message of a user."""
        question = _conversation(messages, options)
        call = await self._call(options)
        return await self._run(call, partial(self._transport.answer, call, question))

    async def complete(self, prompt: Input, **options: Unpack[GenerationOptions]) -> Answer:
        """Continues a prompt: a text, or token ids."""
        question = _prompt(prompt, options)
        call = await self._call(options)
        return await self._run(call, partial(self._transport.answer, call, question))

    def stream_chat(self, messages: str | Sequence[Message], **options: Unpack[ChatOptions]) -> AnswerStream:
        """Returns the answer to a conversation as a stream, for `async for`."""
        return self._stream(_conversation(messages, options), options)

    def stream_complete(self, prompt: Input, **options: Unpack[GenerationOptions]) -> AnswerStream:
        """Returns the continuation of a prompt as a stream, for `async for`."""
        return self._stream(_prompt(prompt, options), options)

    async def embed(
        self, inputs: str | Sequence[Input], *, dimensions: int | None = None, **options: Unpack[CallOptions]
    ) -> Embeddings:
        """Makes one vector of each text, or of each list of token ids. `dimensions`: elements to keep of each,
        which is then scaled to unit length again."""
        check(options, CallOptions)
        given = [inputs] if isinstance(inputs, str) else list(inputs)
        if len({isinstance(each, str) for each in given}) > 1:
            raise InvalidRequest("inputs must be all texts or all lists of token ids", param="input")
        call = await self._call(options, embeds=True)
        return await self._run(call, partial(self._transport.embed, call, given, dimensions))

    async def rerank(
        self,
        query: str,
        documents: Sequence[str],
        *,
        top_n: int | None = None,
        instruct: str = "",
        **options: Unpack[CallOptions],
    ) -> Ranking:
        """Ranks texts by how close they are to the query, and returns the first `top_n`: by the scores of a model that
        scores pairs of texts, or by the angles between their embeddings. `instruct`: what to look for, in words, for
        models that take an instruction; others raise Unsupported."""
        check(options, CallOptions)
        if not documents:
            raise InvalidRequest("documents must not be empty", param="documents")
        if top_n is not None and top_n < 1:
            raise InvalidRequest(f"top_n is {top_n}; it must be at least 1", param="top_n")
        call = await self._call(options, embeds=True)
        return await self._run(call, partial(self._transport.rerank, call, query, documents, top_n, instruct))

    async def models(self, **options: Unpack[CallOptions]) -> list[Model]:
        """Lists the models that are served, those with adapters last."""
        check(options, CallOptions)
        call = self._named(options, "")
        return await self._run(call, partial(self._transport.models, call))

    async def usage(
        self,
        by: Literal["key", "model", "tenant", "day"] = "key",
        *,
        since: str = "",
        until: str = "",
        **options: Unpack[CallOptions],
    ) -> list[UsageRow]:
        """Sums what requests used, from one day (such as 2026-11-22, in UTC) to another. Over HTTP only: raises
        Unsupported over gRPC."""
        given = {"by": by, "since": since, "until": until}
        found = await self._read("/headrace/usage", given, options)
        # A newer platform may tell more.
        return [UsageRow(row[by], **{name: row[name] for name in _USAGE_NAMES & row.keys()}) for row in found["data"]]

    async def requests(
        self, *, limit: int = 20, outcome: str = "", **options: Unpack[CallOptions]
    ) -> list[RequestTrace]:
        """Lists the last requests, the newest first, of a model and an outcome if they are given. Over HTTP only:
        raises Unsupported over gRPC."""
        given = {"limit": str(limit), "outcome": outcome, "model": options.get("model", "")}
        found = await self._read("/headrace/requests", given, options)
        return [trace_of(record) for record in found["data"]]

    async def trace(self, name: str = "last", **options: Unpack[CallOptions]) -> RequestTrace:
        """Tells where the time of one of the last requests went, by its request id. Over HTTP only:
        raises Unsupported over gRPC."""
        return trace_of(await self._read(f"/headrace/requests/{quote(name, safe='')}", {}, options))

    def _stream(self, question: Question, options: CallOptions) -> AnswerStream:
        def opened(call: Call) -> AsyncGenerator[Chunk, None]:
            return self._transport.stream(call, question)

        call = self._named(options, options.get("model") or self._model)
        return AnswerStream(opened, call, self._retries, self._with_model)

    async def _read(self, path: str, parameters: Mapping[str, str], options: CallOptions) -> dict[str, Any]:
        check(options, CallOptions)
        call = self._named(options, "")
        given = {name: value for name, value in parameters.items() if value}
        return await self._run(call, partial(self._transport.read, call, path, given))

    async def _run(self, call: Call, attempt: Callable[[], Awaitable[T]]) -> T:
        """Repeats an attempt as it makes sense. Errors tell the request id."""
        try:
            return await self._retries.run(attempt, call.deadline)
        except HeadraceError as error:
            error.details.setdefault("request_id", call.request_id)
            raise

    async def _call(self, options: CallOptions, *, embeds: bool = False) -> Call:
        return await self._with_model(self._named(options, options.get("model") or self._model), embeds=embeds)

    def _named(self, options: CallOptions, model: str) -> Call:
        request_id = options.get("request_id") or uuid.uuid4().hex
        if not _REQUEST_ID.fullmatch(request_id):
            raise InvalidRequest("request_id must be 1 to 128 visible ASCII characters", param="request_id")
        deadline = Deadline.after(options.get("timeout", self._timeout))
        return Call(model, request_id, deadline, options.get("priority", "default"))

    async def _with_model(self, call: Call, *, embeds: bool = False) -> Call:
        """Returns the call with a model: the first served that makes embeddings, or text, those before all others that
        can chat. Asks once."""
        if call.model:
            return call
        if embeds not in self._first_models:
            models = await self._run(call, partial(self._transport.models, call))
            fitting = [model for model in models if bool(model.embedding_size) is embeds]
            names = [
                model.name for model in sorted(fitting, key=lambda model: (not model.can_chat, model.scores_pairs))
            ]
            if not names:
                raise Unavailable(f"no model that makes {'embeddings' if embeds else 'text'} is served: name one")
            self._first_models[embeds] = names[0]
        return replace(call, model=self._first_models[embeds])


def _transport(addresses: Sequence[str], key: str, authority: Path | None) -> Transport:
    parts = [urlsplit(address) for address in addresses]
    if len(parts) == 1 and parts[0].scheme in ("grpc", "grpcs") and parts[0].netloc:
        return GrpcTransport(parts[0].netloc, key, authority, is_secure=parts[0].scheme == "grpcs")
    if parts and all(part.scheme in ("http", "https") and part.netloc for part in parts):
        bare = [address.rstrip("/").removesuffix("/v1") for address in addresses]
        return HttpTransport(bare, key, authority)
    given = ", ".join(map(repr, addresses))
    raise ConfigError(
        f"the address is {given or 'missing'}; write http://, https://, grpc:// or grpcs://HOST:PORT, several over "
        "HTTP alone"
    )


def _conversation(messages: str | Sequence[Message], options: ChatOptions) -> Question:
    check(options, ChatOptions)
    given = (Message("user", messages),) if isinstance(messages, str) else tuple(messages)
    if not given:
        raise InvalidRequest("messages must not be empty", param="messages")
    return Question(options, messages=given)


def _prompt(prompt: Input, options: GenerationOptions) -> Question:
    check(options, GenerationOptions)
    return Question(cast("ChatOptions", options), prompt=prompt if isinstance(prompt, str) else tuple(prompt))
