"""The part of a submission that only workers read."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Order:
    """A generation as it came over the wire, to be passed on unread."""

    generation: bytes
    """A serialized Generation."""
    priority_class: int
    """Number of the PriorityClass."""
    traceparent: str
    """W3C trace context of the request; empty when it has none."""
