"""Timeout that a client sets for its own request."""

import re

from headrace.errors import InvalidRequest

TIMEOUT_HEADER = "x-headrace-timeout-ms"
MAX_TIMEOUT_MS = 24 * 3600 * 1000
_SOME_DIGITS = re.compile(r"[0-9]{1,9}")


def client_timeout(given: str | None) -> float | None:
    """Returns the header's timeout in seconds. Raises InvalidRequest if the value is not a number of milliseconds."""
    if given is None:
        return None
    if not _SOME_DIGITS.fullmatch(given) or not 1 <= int(given) <= MAX_TIMEOUT_MS:
        raise InvalidRequest(f"{TIMEOUT_HEADER} must be an integer from 1 to {MAX_TIMEOUT_MS}", param=TIMEOUT_HEADER)
    return int(given) / 1000
