"""Lines of the output and the error file of a batch (https://platform.openai.com/docs/guides/batch)."""

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from headrace.gateway.batches.storage.batch_record import BatchStatus

_UNANSWERED: Mapping[BatchStatus, tuple[str, str]] = {
    BatchStatus.EXPIRED: (
        "batch_expired",
        "this request could not be executed before the completion window expired",
    ),
    BatchStatus.CANCELLED: ("batch_cancelled", "this request was not executed, because the batch was cancelled"),
}


def request_id(batch_id: str, custom_id: str) -> str:
    """Returns the id of a request, the same however often it is sent."""
    return f"batch_req_{hashlib.sha256(f'{batch_id}/{custom_id}'.encode()).hexdigest()[:32]}"


def answered(batch_id: str, custom_id: str, status: int, body: bytes) -> dict[str, Any]:
    """Returns the line of a request that got an answer, be it an error."""
    name = request_id(batch_id, custom_id)
    response = {"status_code": status, "request_id": name, "body": msgspec.Raw(body)}
    return {"id": name, "custom_id": custom_id, "response": response, "error": None}


def unanswered(batch_id: str, custom_id: str, ending: BatchStatus) -> dict[str, Any]:
    """Returns the line of a request that was not executed before the end of its batch."""
    code, message = _UNANSWERED[ending]
    error = {"code": code, "message": message}
    return {"id": request_id(batch_id, custom_id), "custom_id": custom_id, "response": None, "error": error}
