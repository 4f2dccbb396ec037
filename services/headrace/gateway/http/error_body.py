"""Errors as OpenAI's API writes them."""

import math
from typing import Any

from headrace.errors import HeadraceError, InternalError, RateLimited, Unauthenticated
from headrace.errors.table import message_of, row_of


def error_body(error: BaseException) -> dict[str, Any]:
    """Returns `{"error": {message, type, param, code}}`. Foreign exceptions reveal only that an error happened."""
    shown = error if isinstance(error, HeadraceError) else InternalError()
    row = row_of(shown)
    return {"error": {"message": message_of(shown), "type": row.type, "param": shown.param, "code": row.code}}


def error_headers(error: BaseException) -> dict[str, str]:
    """Returns headers that tell clients when to retry, as the OpenAI SDKs ask, and which kind of key is missing."""
    if isinstance(error, Unauthenticated):
        return {"www-authenticate": "Bearer"}
    retry_after = error.retry_after if isinstance(error, HeadraceError) else None
    if retry_after is None:
        # Clients retry after 429 unless a header forbids it.
        return {"x-should-retry": "false"} if isinstance(error, RateLimited) else {}
    return {
        "retry-after": str(max(1, math.ceil(retry_after))),
        "retry-after-ms": str(round(retry_after * 1000)),
        "x-should-retry": "true",
    }
