"""Search of a long text, slice by slice."""

from collections.abc import Callable, Iterator

from headrace.gateway.filter.detectors.places.character_codes import Codes, Places, codes_of

FindPlaces = Callable[[Codes], Places]
"""Returns the places at which a finding may begin, from the left."""
SLICE = 48 * 1024
"""Characters that are searched at once: their intermediate results stay in a cache of the processor."""
_BEFORE, _BEHIND = 128, 640
"""Characters around a slice on which it may depend whether a finding begins inside."""


def likely_places(text: str, begin: int, find: FindPlaces) -> Iterator[list[int]]:
    """Yields for each slice of a text the places from `begin` on at which a finding may begin."""
    for start in range(begin, len(text), SLICE):
        first = max(0, start - _BEFORE)
        places = find(codes_of(text[first : start + SLICE + _BEHIND])) + first
        yield places[(places >= start) & (places < start + SLICE)].tolist()
