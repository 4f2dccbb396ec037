"""Predicted length of one output."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OutputLength:
    """Output tokens of a request that has not ended."""

    mean: float
    low: float
    """Length that one of ten such requests stays below."""
    high: float
    """Length that one of ten exceeds."""
