"""Parts of a request and of its response as a proxy shows them, and the replies to them."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field


class PartKind(enum.Enum):
    """Kind of a part."""

    REQUEST_HEADERS = "request_headers"
    RESPONSE_HEADERS = "response_headers"
    REQUEST_BODY = "request_body"
    RESPONSE_BODY = "response_body"
    REQUEST_TRAILERS = "request_trailers"
    RESPONSE_TRAILERS = "response_trailers"


class BodyMode(enum.Enum):
    """Way in which a body is shown."""

    UNSEEN = "unseen"
    """Not at all, or only after the headers were answered: an endpoint is picked without it."""
    WHOLE = "whole"
    """In one part, after the headers were answered."""
    DUPLEX = "duplex"
    """In pieces, before anything was answered. Only what is sent back is passed on."""


@dataclass(frozen=True, slots=True)
class HttpPart:
    """Part of a request or of its response."""

    kind: PartKind
    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers by their names in lower case. Of several, the last."""
    body: bytes = b""
    ends: bool = False
    """Whether it is the last part of the request, or of the response."""
    subset: frozenset[str] | None = None
    """Endpoints of which one must be picked. None: the proxy names none."""
    served: str = ""
    """Endpoint that served the request. Empty: it is not known."""
    request_mode: BodyMode | None = None
    """Way in which the body of the request is shown. None: the part does not say."""
    response_mode: BodyMode | None = None
    is_watched: bool = False
    """Whether the proxy only lets us see the part, and reads no reply."""


@dataclass(frozen=True, slots=True)
class PartReply:
    """Reply to a part."""

    kind: PartKind
    endpoints: tuple[str, ...] = ()
    """Endpoints to which the request goes. Empty: they were named before, or come later."""
    body: bytes | None = None
    """Piece of the body to pass on, in the mode DUPLEX. None: the proxy passes on what it has."""
    ends: bool = False
    """Whether `body` is the last piece."""
