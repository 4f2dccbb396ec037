"""Ids that sort by the time at which they were made, and cannot be predicted."""

import re
import secrets
import time

FILE, BATCH = "file-", "batch_"
"""First letters of the ids of files and batches, as OpenAI has them."""
PATTERN = "[0-9a-f]{32}"
_REST = re.compile(PATTERN)


def new_id(prefix: str) -> str:
    """Returns an id of 12 digits of time, in ms since 1970, and 20 digits of chance."""
    return f"{prefix}{time.time_ns() // 1_000_000:012x}{secrets.token_hex(10)}"


def is_id(text: str, prefix: str) -> bool:
    """Whether a text has the form of an id, and so may be part of a path."""
    return text.startswith(prefix) and _REST.fullmatch(text.removeprefix(prefix)) is not None
