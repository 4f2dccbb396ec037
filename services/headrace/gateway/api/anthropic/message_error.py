"""Errors as Anthropic's API writes them."""

from typing import Any

from headrace.errors import HeadraceError, InternalError
from headrace.errors.table import row_of

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}


def message_error(error: BaseException) -> dict[str, Any]:
    """Returns `{"type": "error", "error": {type, message}}`. Foreign exceptions reveal only that an error happened."""
    shown = error if isinstance(error, HeadraceError) else InternalError()
    status = row_of(shown).http_status
    kind = _TYPES.get(status, "api_error" if status >= 500 else "invalid_request_error")
    return {"type": "error", "error": {"type": kind, "message": shown.message}}
