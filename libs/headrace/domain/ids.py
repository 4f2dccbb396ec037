"""Ids of a request throughout the platform, each built from the one before.

| id | example | who makes it | what it names |
|---|---|---|---|
| client's id | `abc` | the client, as `x-request-id`, else the gateway | a request, in logs and traces; may repeat |
| `RequestId` | `abc.1f00ba47` | the gateway that accepts it | one request, unique in the platform |
| `SequenceId` | `abc.1f00ba47-0` | the gateway, for each choice of each prompt | one output, on whichever worker |
| `AttemptId` | `abc.1f00ba47-0#2` | the holder of one placement of it | one output on one worker |
"""

import uuid
from typing import NewType

RequestId = NewType("RequestId", str)
SequenceId = NewType("SequenceId", str)
AttemptId = NewType("AttemptId", str)

_UNIQUE, _INDEX, _ATTEMPT = ".", "-", "#"


def new_request_id(client_id: str) -> RequestId:
    """Makes a request's id unique, because a client may use one id for several requests."""
    return RequestId(f"{client_id}{_UNIQUE}{uuid.uuid4().hex[:8]}")


def sequence_id(request_id: RequestId, index: int) -> SequenceId:
    """Names one output of a request. `index` counts choices of prompts, from 0."""
    return SequenceId(f"{request_id}{_INDEX}{index}")


def is_first_sequence(name: str) -> bool:
    """Whether an id of a sequence is that of the first of its request. Names without an index are."""
    return name.rpartition(_INDEX)[2] in ("0", name)


def attempt_id(sequence: str, attempt: int) -> AttemptId:
    """Names one placement of an output. `attempt` counts from 1."""
    return AttemptId(f"{sequence}{_ATTEMPT}{attempt}")


def client_id_of(name: str) -> str:
    """Returns the client's id, from any id of the platform."""
    return name.partition(_ATTEMPT)[0].rpartition(_UNIQUE)[0] or name


def belongs_to(name: str, whole: str) -> bool:
    """Whether `name` is the id `whole`, or the id of a part of it."""
    return name == whole or name.startswith((f"{whole}{_UNIQUE}", f"{whole}{_INDEX}", f"{whole}{_ATTEMPT}"))


def trace_attributes(sequence: str, attempt: int | None = None) -> dict[str, str | int]:
    """Returns the attributes that identify a sequence in the spans of all services."""
    attributes: dict[str, str | int] = {
        "headrace.request_id": client_id_of(sequence),
        "headrace.sequence_id": sequence,
    }
    return attributes if attempt is None else attributes | {"headrace.attempt": attempt}
