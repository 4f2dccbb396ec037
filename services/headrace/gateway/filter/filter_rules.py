"""Rules of one tenant's filter."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from headrace.gateway.filter.detectors.detector import Detector
from headrace.gateway.filter.detectors.finding import Finding
from headrace.gateway.filter.guard_rule import GuardRule

MAX_FINDINGS = 10_000
"""Findings that are masked in one text. One with more is blocked: it is a list of what must not be said."""


@dataclass(frozen=True, slots=True)
class FilterRules:
    """Detectors, and what to do about what they find."""

    detectors: Sequence[Detector] = ()
    action: Literal["mask", "block"] = "mask"
    """`mask` puts the detector's name in place of a finding; `block` refuses an input, and ends an output."""
    on_input: bool = True
    on_output: bool = True
    guard: GuardRule | None = None
    """Model that judges what no expression finds."""

    @property
    def names(self) -> list[str]:
        """Names of what the detectors find."""
        return [name for detector in self.detectors for name in detector.names]

    def findings(self, text: str, begin: int = 0) -> list[Finding]:
        """Returns findings that begin at `begin` or later and do not overlap, from the left. Of several at one place,
        the longest counts. Each detector looks for one more than MAX_FINDINGS, no further."""
        found = [
            finding for detector in self.detectors for finding in islice(detector.find(text, begin), MAX_FINDINGS + 1)
        ]
        if not found:
            return found
        found.sort(key=lambda finding: (finding.start, -finding.end))
        kept: list[Finding] = []
        for finding in found:
            if not kept or finding.start >= kept[-1].end:
                kept.append(finding)
        return kept

    def undecided(self, text: str) -> int:
        """Returns the length of the end of `text` that may belong to a finding when more text follows."""
        return max([detector.undecided(text) for detector in self.detectors], default=0)
