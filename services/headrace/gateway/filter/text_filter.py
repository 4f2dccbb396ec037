"""Filtering of a text that arrives in parts."""

from collections.abc import Sequence

from prometheus_client import Counter

from headrace.gateway.filter.detectors.finding import Finding
from headrace.gateway.filter.filter_rules import MAX_FINDINGS, FilterRules

FINDINGS = Counter("headrace_filter_findings", "Texts that a filter masked or blocked", ["detector", "action"])


class TextFilter:
    """Holds back the end of a text while it may belong to a finding, however the text is split."""

    def __init__(self, rules: FilterRules) -> None:
        self._rules = rules
        self._shown = ""
        """The last character that was settled: word boundaries depend on it."""
        self._held = ""
        self.blocked_by = ""
        """Name of the detector whose finding ended the text."""

    def push(self, text: str, is_last: bool = False) -> str:
        """Returns the text that may be shown. After a finding that blocks, there is none."""
        if self.blocked_by or not (text or is_last):
            return ""
        self._held += text
        seen, limit = self._shown + self._held, len(self._held)
        if not is_last:
            limit -= min(limit, self._rules.undecided(seen))
        # Settled text begins no finding any more; it only shows whether a word continues.
        if findings := self._rules.findings(seen, len(self._shown)):
            return self._settle(limit, self._within_held(findings))
        return self._take(limit)

    def _take(self, limit: int) -> str:
        taken = self._held[:limit]
        if taken:
            self._shown, self._held = taken[-1], self._held[limit:]
        return taken

    def _settle(self, limit: int, findings: Sequence[Finding]) -> str:
        """Takes out the text before `limit`, or before a finding that goes beyond it."""
        parts: list[str] = []
        at = 0
        is_blocked = self._rules.action == "block" or len(findings) > MAX_FINDINGS
        for finding in findings:
            if finding.end > limit:
                limit = min(limit, max(finding.start, at))
                break
            parts.append(self._held[at : finding.start])
            FINDINGS.labels(finding.name, "block" if is_blocked else "mask").inc()
            if is_blocked:
                self.blocked_by, self._held = finding.name, ""
                return "".join(parts)
            parts.append(f"[{finding.name}]")
            at = finding.end
        parts.append(self._held[at:limit])
        self._take(limit)
        return "".join(parts)

    def _within_held(self, findings: Sequence[Finding]) -> list[Finding]:
        """Returns findings by their places in the text that is held."""
        before = len(self._shown)
        return [Finding(found.start - before, found.end - before, found.name) for found in findings]
