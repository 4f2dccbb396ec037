"""Finding by several patterns at once."""

import re
from collections.abc import Iterable, Sequence
from itertools import chain

from headrace.gateway.filter.detectors.finding import Finding
from headrace.gateway.filter.detectors.pattern_detector import SHORT_LENGTH, PatternDetector

MAX_TAIL = 640


class PatternSet:
    """Detector of what any of several patterns finds: two searches rule them all out in most texts."""

    def __init__(self, detectors: Sequence[PatternDetector]) -> None:
        self.names = [each.name for each in detectors]
        self._detectors = detectors
        self._has_sign = re.compile("|".join(each.sign for each in detectors)).search
        tails = [tail for each in detectors for tail in each.tails]
        self._match_tails = re.compile("".join(f"(?=({tail})|)" for tail in tails)).match
        """Matches every tail at the beginning, each as a group."""

    def find(self, text: str, begin: int = 0) -> Iterable[Finding]:
        # One search of a long text is one call of a library, in which nothing else runs. Detectors search it in slices.
        if len(text) - begin <= SHORT_LENGTH and not self._has_sign(text):
            return ()
        return chain.from_iterable(detector.find(text, begin) for detector in self._detectors)

    def undecided(self, text: str) -> int:
        match = self._match_tails(text[: -MAX_TAIL - 1 : -1])
        return max(match.regs)[1] if match else 0
