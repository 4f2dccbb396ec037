"""Runs of characters of one kind between which a single separator may stand."""

from dataclasses import dataclass

import numpy as np

from headrace.gateway.filter.detectors.places.character_codes import Mask, Places, ahead


@dataclass(frozen=True, slots=True)
class LinkedRuns:
    """Characters of one kind, numbered from the left, and the runs that they form."""

    places: Places
    """Place of each in the text."""
    ends: Places
    """Number behind the last of the run that each is in."""
    is_adjacent: Mask
    """Whether the next of the kind is the next character."""
    longest: int
    """Length of the longest run."""

    @classmethod
    def of(cls, kind: Mask, separator: Mask) -> "LinkedRuns":
        """Finds the runs: between two of a kind in one run stands nothing, or one separator."""
        follows = ahead(kind, 1)
        is_linked = follows | (ahead(separator, 1) & ahead(kind, 2))
        places = np.flatnonzero(kind)
        # The last of a text is linked to none.
        ends = np.flatnonzero(~is_linked.take(places)).astype(np.int32) + np.int32(1)
        lengths = np.diff(ends, prepend=0)
        return cls(places, np.repeat(ends, lengths), follows.take(places), int(np.max(lengths, initial=0)))
