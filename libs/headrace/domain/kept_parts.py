"""Answer of a cache to the growth of journals."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KeptParts:
    """Streams whose parts a cache has not kept. It has kept all others."""

    unknown: frozenset[str] = frozenset()
    """Streams that are to be written from the beginning, with their record."""
    refused: frozenset[str] = frozenset()
    """Streams that are too large to be kept."""
