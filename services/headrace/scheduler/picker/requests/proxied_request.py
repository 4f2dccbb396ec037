"""One request that passes through a proxy: it gets an endpoint, and its response is watched."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from headrace.errors import HeadraceError, InvalidRequest, Overloaded, PayloadTooLarge, Unavailable
from headrace.scheduler.core.queueing.urgency import Urgency
from headrace.scheduler.picker.choosing.endpoint_picker import EndpointPicker
from headrace.scheduler.picker.choosing.pick_order import Pick, PickOrder
from headrace.scheduler.picker.choosing.picker_metrics import REQUESTS
from headrace.scheduler.picker.requests.asked_prompt import TOKEN_BYTES, AskedPrompt, read_prompt
from headrace.scheduler.picker.requests.body_room import BodyRoom
from headrace.scheduler.picker.requests.http_part import BodyMode, HttpPart, PartKind, PartReply
from headrace.scheduler.picker.requests.response_meter import ResponseMeter

PIECE_BYTES = 60_000
"""Bytes of a body that are sent back at once: some proxies take at most 64 KiB."""
MAX_NAME_LENGTH = 128
OBJECTIVE_HEADER = "x-llm-d-inference-objective"
TTFT_HEADER = "x-slo-ttft-ms"
MAX_MILLISECONDS = 3_600_000


@dataclass(frozen=True, slots=True)
class OrderTerms:
    """Terms on which requests are distinguished."""

    tenant_header: str
    """Header that names the tenant. Empty: all are one."""
    classes: Mapping[str, Urgency] = field(default_factory=dict)
    """Classes by objective."""


class ProxiedRequest:
    """Takes the parts of a request and of its response, in their order, and gives the replies."""

    def __init__(self, picker: EndpointPicker, room: BodyRoom, terms: OrderTerms) -> None:
        self._picker = picker
        self._room = room
        self._terms = terms
        self._headers: Mapping[str, str] = {}
        self._subset: frozenset[str] | None = None
        self._request_mode = BodyMode.DUPLEX
        self._response_mode = BodyMode.DUPLEX
        self._body = bytearray()
        self._pick: Pick | None = None
        self._meter = ResponseMeter(is_stream=False)
        self._is_refused = False
        self._has_response = False

    @property
    def awaits_body(self) -> bool:
        """Whether the rest of the request is to come before an endpoint is picked."""
        return self._pick is None

    async def take(self, part: HttpPart) -> list[PartReply]:
        """Takes a part and returns the replies. Raises the HeadraceError by which the request is refused."""
        replies = await self._take(part)
        return [] if part.is_watched else replies

    def refuse(self, error: HeadraceError) -> None:
        """Takes in that the request was refused."""
        self._is_refused = True
        REQUESTS.labels(_outcome(error)).inc()

    def close(self) -> None:
        """Gives back all that the request holds. Called at its end, however it came."""
        self._drop_body()
        if self._pick is not None:
            # Where the proxy shows no body of a response, its headers are all that comes.
            is_complete = self._has_response and self._response_mode is BodyMode.UNSEEN
            self._picker.settle(self._pick.request_id, self._meter.token_count(), is_complete=is_complete)
        elif not self._is_refused:
            REQUESTS.labels("cut").inc()

    async def _take(self, part: HttpPart) -> list[PartReply]:
        if part.subset is not None:
            self._subset = part.subset
        match part.kind:
            case PartKind.REQUEST_HEADERS:
                return await self._take_headers(part)
            case PartKind.REQUEST_BODY:
                return await self._take_body(part)
            case PartKind.REQUEST_TRAILERS:
                return [*await self._answer_all(ends=False), PartReply(part.kind)]
            case _:
                return self._watch(part)

    async def _take_headers(self, part: HttpPart) -> list[PartReply]:
        self._headers = part.headers
        self._request_mode = part.request_mode or BodyMode.DUPLEX
        self._response_mode = part.response_mode or BodyMode.DUPLEX
        length = part.headers.get("content-length", "")
        byte_count = int(length[:20]) if length.isascii() and length.isdecimal() else 0
        self._room.check(byte_count)
        if part.ends or self._request_mode is BodyMode.UNSEEN:
            pick = await self._choose(AskedPrompt(token_count=max(1, byte_count // TOKEN_BYTES)))
            return [PartReply(part.kind, pick.endpoints)]
        return [PartReply(part.kind)] if self._request_mode is BodyMode.WHOLE else []

    async def _take_body(self, part: HttpPart) -> list[PartReply]:
        if self._pick is not None:
            return [self._passed_on(part, self._request_mode)]
        self._room.check(len(self._body) + len(part.body))
        self._room.take(len(part.body))
        self._body += part.body
        if self._request_mode is BodyMode.WHOLE:
            pick = await self._choose_by_body()
            return [PartReply(part.kind, pick.endpoints)]
        return await self._answer_all(ends=True) if part.ends else []

    async def _answer_all(self, *, ends: bool) -> list[PartReply]:
        """Answers the headers and the body that were held back. `ends`: whether no trailers follow."""
        if self._pick is not None or self._request_mode is not BodyMode.DUPLEX:
            return []
        body = bytes(self._body)
        pick = await self._choose_by_body()
        return [PartReply(PartKind.REQUEST_HEADERS, pick.endpoints), *_pieces(body, ends=ends)]

    async def _choose_by_body(self) -> Pick:
        kind = self._headers.get("content-type", "application/json").partition(";")[0].strip().lower()
        is_json = kind == "application/json" or kind.endswith("+json")
        if "content-encoding" in self._headers or not is_json:
            prompt = AskedPrompt(token_count=max(1, len(self._body) // TOKEN_BYTES))
        else:
            prompt = read_prompt(bytes(self._body))
        pick = await self._choose(prompt)
        self._drop_body()
        return pick

    async def _choose(self, prompt: AskedPrompt) -> Pick:
        headers, terms = self._headers, self._terms
        order = PickOrder(
            prompt_token_count=prompt.token_count,
            max_token_count=prompt.max_token_count,
            chain=prompt.chain,
            is_streamed=prompt.is_streamed,
            tenant=headers.get(terms.tenant_header, "")[:MAX_NAME_LENGTH] if terms.tenant_header else "",
            urgency=terms.classes.get(headers.get(OBJECTIVE_HEADER, ""), Urgency.DEFAULT),
            first_token_seconds=_seconds(headers.get(TTFT_HEADER, "")),
            subset=self._subset,
        )
        self._pick = await self._picker.pick(order)
        return self._pick

    def _watch(self, part: HttpPart) -> list[PartReply]:
        """Takes a part of the response."""
        if self._pick is None:
            return [self._passed_on(part, self._response_mode)]
        request_id = self._pick.request_id
        if part.kind is PartKind.RESPONSE_HEADERS:
            self._has_response = True
            status = part.headers.get(":status", "")
            self._picker.note_served(request_id, part.served, int(status) if status.isdecimal() else 200)
            is_stream = part.headers.get("content-type", "").startswith("text/event-stream")
            self._meter = ResponseMeter(is_stream=is_stream)
        elif part.body:
            self._picker.note_piece(request_id)
            self._meter.add(part.body)
        if part.ends or part.kind is PartKind.RESPONSE_TRAILERS:
            self._picker.settle(request_id, self._meter.token_count(), is_complete=True)
        return [self._passed_on(part, self._response_mode)]

    def _passed_on(self, part: HttpPart, mode: BodyMode) -> PartReply:
        has_body = part.kind in (PartKind.REQUEST_BODY, PartKind.RESPONSE_BODY)
        return PartReply(part.kind, body=part.body if has_body and mode is BodyMode.DUPLEX else None, ends=part.ends)

    def _drop_body(self) -> None:
        self._room.give(len(self._body))
        self._body = bytearray()


def _pieces(body: bytes, *, ends: bool) -> Iterator[PartReply]:
    for start in range(0, max(1, len(body)), PIECE_BYTES):
        piece = body[start : start + PIECE_BYTES]
        yield PartReply(PartKind.REQUEST_BODY, body=piece, ends=ends and start + PIECE_BYTES >= len(body))


def _seconds(milliseconds: str) -> float | None:
    """Reads a time that a header asks for. One that is no such number is passed over."""
    try:
        value = float(milliseconds[:20])
    except ValueError:
        return None
    return value / 1000 if 0 < value <= MAX_MILLISECONDS else None


def _outcome(error: HeadraceError) -> str:
    match error:
        case PayloadTooLarge():
            return "too large"
        case InvalidRequest():
            return "invalid"
        case Overloaded():
            return "shed"
        case Unavailable():
            return "no endpoint"
        case _:
            return "error"
