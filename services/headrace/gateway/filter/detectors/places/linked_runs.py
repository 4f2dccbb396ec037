"""Runs of characters of one kind between which a single separator may stand."""

from dataclasses import dataclass

import numpy as np

from headrace.gateway.filter.detectors.places.character_codes import Mask, Places, ahead, run_ends


@dataclass(frozen=True, slots=True)
class LinkedRuns:
    """Characters of one kind, numbered from the left, and the runs that they form."""

    places: Places
    """Place of each in the text."""
    ends: Places
    """Number behind the last of the run that each is in."""
    is_adjacent: Mask
    """Whether the next of the kind is the next character."""

    @classmethod
    def of(cls, kind: Mask, separator: Mask) -> "LinkedRuns":
        """Finds the runs: between two of a kind in one run stands nothing, or one separator."""
        follows = ahead(kind, 1)
        is_linked = follows | (ahead(separator, 1) & ahead(kind, 2))
        places = np.flatnonzero(kind)
        ends = np.minimum(run_ends(is_linked[places]) + 1, np.int32(len(places)))
        return cls(places, ends, follows[places])
