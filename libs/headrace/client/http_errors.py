"""Errors of the platform, read off HTTP responses."""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from headrace.client.retries import SHOULD_RETRY
from headrace.errors import (
    DeadlineExceeded,
    Forbidden,
    HeadraceError,
    InternalError,
    InvalidRequest,
    NotFound,
    PayloadTooLarge,
    RateLimited,
    Unauthenticated,
    Unavailable,
)
from headrace.errors.table import ROWS, row_of_reason

BY_STATUS: dict[int, type[HeadraceError]] = {
    401: Unauthenticated,
    403: Forbidden,
    404: NotFound,
    408: DeadlineExceeded,
    413: PayloadTooLarge,
    429: RateLimited,
    502: Unavailable,
    503: Unavailable,
    504: DeadlineExceeded,
}
"""Errors of what stands between client and platform, which names no reason."""
_STAGE = re.compile(r"(.*) \(stage: (\w+)\)", re.DOTALL)
_SHOWN_LENGTH = 200


def error_of(status: int, headers: Mapping[str, str], content: bytes) -> HeadraceError:
    """Returns the error that a response with an error status describes."""
    try:
        error = error_in(json.loads(content))
    except (ValueError, RecursionError):
        error = None
    if error is None:
        kind = BY_STATUS.get(status, InvalidRequest if 400 <= status < 500 else InternalError)
        text = content[:_SHOWN_LENGTH].decode(errors="replace").strip()
        error = kind(f"status {status} from something that is no platform, or stands before one: {text or 'no text'}")
    error.retry_after = _retry_after(headers)
    if (word := headers.get("x-should-retry")) is not None:
        error.details[SHOULD_RETRY] = word.lower()
    return error


def error_in(body: Any) -> HeadraceError | None:
    """Returns the error in a body of OpenAI's API, or in an event of a stream. None: there is none."""
    found = body.get("error") if isinstance(body, dict) else None
    if not isinstance(found, dict):
        return None
    row = row_of_reason(str(found.get("code") or "").upper())
    kind = InternalError if row is None or row is ROWS[-1] else row.error
    message, stage = str(found.get("message") or ""), None
    if (parts := _STAGE.fullmatch(message)) is not None:
        message, stage = parts[1], parts[2]
    return kind(message, param=found.get("param"), stage=stage)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Returns the seconds in `retry-after-ms` or `retry-after` (RFC 9110, 10.2.3)."""
    try:
        if "retry-after-ms" in headers:
            return max(0.0, float(headers["retry-after-ms"]) / 1000)
        given = headers.get("retry-after")
        if given is None:
            return None
        if given.isdecimal():
            return float(given)
        return max(0.0, (parsedate_to_datetime(given) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return None
