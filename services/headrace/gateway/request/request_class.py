"""The urgency that a client gives its request."""

import re

from headrace.errors import InvalidRequest
from headrace.gateway.access.tenant import CLASSES
from headrace.v1.generation_pb2 import PriorityClass

CLASS_HEADER = "x-headrace-class"
TTFT_HEADER = "x-slo-ttft-ms"
MAX_FIRST_TOKEN_MS = 3600 * 1000

SERVICE_TIERS: dict[str | None, "PriorityClass.ValueType"] = {
    None: PriorityClass.PRIORITY_CLASS_UNSPECIFIED,
    "auto": PriorityClass.PRIORITY_CLASS_UNSPECIFIED,
    "default": PriorityClass.PRIORITY_CLASS_UNSPECIFIED,
    "scale": PriorityClass.PRIORITY_CLASS_UNSPECIFIED,
    "flex": PriorityClass.PRIORITY_CLASS_BATCH,
    "fast": PriorityClass.PRIORITY_CLASS_REALTIME,
    "priority": PriorityClass.PRIORITY_CLASS_REALTIME,
}
"""Classes by OpenAI's `service_tier`."""
_SOME_DIGITS = re.compile(r"[0-9]{1,7}")


def class_of(given: str | None) -> "PriorityClass.ValueType | None":
    """Returns the class that the header names, or None without a header. Raises InvalidRequest for an unknown name."""
    if given is None:
        return None
    if given not in CLASSES:
        known = ", ".join(CLASSES)
        raise InvalidRequest(f"{CLASS_HEADER} is {given!r}; it must be one of {known}", param=CLASS_HEADER)
    return CLASSES[given]


def class_name(given: "PriorityClass.ValueType") -> str:
    """Returns the name of a class. One that is not known is served as the default class."""
    return next((name for name, known in CLASSES.items() if known == given), "default")


def first_token_seconds(given: str | None) -> float | None:
    """Returns the header's time to first token in seconds. Raises InvalidRequest if the value is not a number of
    milliseconds."""
    if given is None:
        return None
    if not _SOME_DIGITS.fullmatch(given) or not 1 <= int(given) <= MAX_FIRST_TOKEN_MS:
        raise InvalidRequest(f"{TTFT_HEADER} must be an integer from 1 to {MAX_FIRST_TOKEN_MS}", param=TTFT_HEADER)
    return int(given) / 1000
