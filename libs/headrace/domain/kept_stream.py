"""Journal of a stream, as a cache keeps it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KeptStream:
    """Record of a request, and the tokens of its answer so far."""

    record: bytes
    parts: tuple[bytes, ...]
    """Tokens, in the order in which they were written. Those of two parts may overlap."""
    record_age: float = 0.0
    """Seconds since the record came."""
