"""Converts messages of Envoy to parts of requests, and replies to messages."""

import json
import math
from collections.abc import Iterable, Mapping

from google.protobuf.struct_pb2 import Struct, Value

from headrace.errors import HeadraceError, Overloaded
from headrace.errors.table import message_of, row_of
from headrace.scheduler.picker.requests.http_part import BodyMode, HttpPart, PartKind, PartReply
from headrace.v1.envoy import external_processor_pb2 as pb
from headrace.v1.envoy.base_pb2 import HeaderMap, HeaderValue, HeaderValueOption, Metadata
from headrace.v1.envoy.http_status_pb2 import HttpStatus, StatusCode
from headrace.v1.envoy.processing_mode_pb2 import ProcessingMode

SUBSET_NAMESPACE, SUBSET_KEY = "envoy.lb.subset_hint", "x-gateway-destination-endpoint-subset"
PICK_NAMESPACE, PICK_KEY = "envoy.lb", "x-gateway-destination-endpoint"
SERVED_KEY = "x-gateway-destination-endpoint-served"
"""Namespaces and keys of the endpoint picker protocol, version 1.0."""
SHED_STATUS = 429
_MODES: Mapping[int, BodyMode] = {
    ProcessingMode.BUFFERED: BodyMode.WHOLE,
    ProcessingMode.FULL_DUPLEX_STREAMED: BodyMode.DUPLEX,
}
"""Ways to show a body; in any other, its end is not seen before the headers are answered."""
_KINDS = {kind.value: kind for kind in PartKind}


def to_part(message: pb.ProcessingRequest) -> HttpPart | None:
    """Converts a message. None: it has no part that is known."""
    kind = _KINDS.get(message.WhichOneof("request") or "")
    if kind is None:
        return None
    part = getattr(message, kind.value)
    is_headers = kind in (PartKind.REQUEST_HEADERS, PartKind.RESPONSE_HEADERS)
    is_body = kind in (PartKind.REQUEST_BODY, PartKind.RESPONSE_BODY)
    has_modes = message.HasField("protocol_config")
    config = message.protocol_config
    return HttpPart(
        kind=kind,
        headers=_headers(part.headers) if is_headers else {},
        body=part.body if is_body else b"",
        ends=part.end_of_stream if is_headers or is_body else True,
        subset=_subset(message.metadata_context),
        served=_text(_metadata(message.metadata_context, PICK_NAMESPACE, SERVED_KEY)),
        request_mode=_MODES.get(config.request_body_mode, BodyMode.UNSEEN) if has_modes else None,
        response_mode=_MODES.get(config.response_body_mode, BodyMode.UNSEEN) if has_modes else None,
        is_watched=message.observability_mode,
    )


def to_response(reply: PartReply) -> pb.ProcessingResponse:
    """Converts a reply."""
    common = pb.CommonResponse(
        header_mutation=_mutation({PICK_KEY: _joined(reply)}) if reply.endpoints else None,
        body_mutation=_body(reply) if reply.body is not None else None,
        clear_route_cache=bool(reply.endpoints),
    )
    metadata = _picked(reply) if reply.endpoints else None
    match reply.kind:
        case PartKind.REQUEST_HEADERS:
            headers = pb.HeadersResponse(response=common)
            return pb.ProcessingResponse(request_headers=headers, dynamic_metadata=metadata)
        case PartKind.REQUEST_BODY:
            body = pb.BodyResponse(response=common)
            return pb.ProcessingResponse(request_body=body, dynamic_metadata=metadata)
        case PartKind.REQUEST_TRAILERS:
            return pb.ProcessingResponse(request_trailers=pb.TrailersResponse())
        case PartKind.RESPONSE_HEADERS:
            return pb.ProcessingResponse(response_headers=pb.HeadersResponse(response=common))
        case PartKind.RESPONSE_BODY:
            return pb.ProcessingResponse(response_body=pb.BodyResponse(response=common))
        case PartKind.RESPONSE_TRAILERS:
            return pb.ProcessingResponse(response_trailers=pb.TrailersResponse())


def to_refusal(error: HeadraceError) -> pb.ProcessingResponse:
    """Converts the error by which a request is refused: 429 where there is too much to do, as the protocol has it."""
    row = row_of(error)
    status = SHED_STATUS if isinstance(error, Overloaded) else row.http_status
    body = {"error": {"message": message_of(error), "type": row.type, "param": None, "code": row.code}}
    headers = {"content-type": "application/json"}
    if error.retry_after is not None:
        headers["retry-after"] = str(max(1, math.ceil(error.retry_after)))
    immediate = pb.ImmediateResponse(
        status=HttpStatus(code=StatusCode.ValueType(status)),
        headers=_mutation(headers),
        body=json.dumps(body).encode(),
        details=f"headrace_picker_{row.code}",
    )
    return pb.ProcessingResponse(immediate_response=immediate)


def _headers(found: HeaderMap) -> dict[str, str]:
    return {
        header.key.lower(): header.raw_value.decode("utf-8", "replace") if header.raw_value else header.value
        for header in found.headers
    }


def _metadata(metadata: Metadata, namespace: str, key: str) -> Value | None:
    fields = metadata.filter_metadata[namespace].fields if namespace in metadata.filter_metadata else {}
    return fields.get(key)


def _subset(metadata: Metadata) -> frozenset[str] | None:
    """Reads the endpoints that the gateway allows: a list, or a text with commas."""
    value = _metadata(metadata, SUBSET_NAMESPACE, SUBSET_KEY)
    if value is None:
        return None
    if value.WhichOneof("kind") == "list_value":
        return _names(_text(entry) for entry in value.list_value.values)
    return _names(_text(value).split(","))


def _names(texts: Iterable[str]) -> frozenset[str]:
    return frozenset(text.strip() for text in texts if text.strip())


def _text(value: Value | None) -> str:
    return "" if value is None else value.string_value.strip()


def _joined(reply: PartReply) -> str:
    return ",".join(reply.endpoints)


def _picked(reply: PartReply) -> Struct:
    inner = Struct(fields={PICK_KEY: Value(string_value=_joined(reply))})
    return Struct(fields={PICK_NAMESPACE: Value(struct_value=inner)})


def _mutation(headers: Mapping[str, str]) -> pb.HeaderMutation:
    action = HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD
    return pb.HeaderMutation(
        set_headers=[
            HeaderValueOption(header=HeaderValue(key=name, raw_value=value.encode()), append_action=action)
            for name, value in headers.items()
        ]
    )


def _body(reply: PartReply) -> pb.BodyMutation:
    return pb.BodyMutation(streamed_response=pb.StreamedBodyResponse(body=reply.body or b"", end_of_stream=reply.ends))
