"""Filtering of a text that arrives in parts."""

from prometheus_client import Counter

from headrace.gateway.filter.filter_rules import FilterRules
from headrace.gateway.filter.finding import Finding

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
        return self._settle(len(self._held) if is_last else self._settled_length())

    def _settled_length(self) -> int:
        return len(self._held) - min(len(self._held), self._rules.undecided(self._shown + self._held))

    def _settle(self, limit: int) -> str:
        """Takes out the text before `limit`, or before a finding that goes beyond it."""
        parts: list[str] = []
        at = 0
        for finding in self._findings():
            if finding.end > limit:
                limit = min(limit, max(finding.start, at))
                break
            parts.append(self._held[at : finding.start])
            FINDINGS.labels(finding.name, self._rules.action).inc()
            if self._rules.action == "block":
                self.blocked_by, self._held = finding.name, ""
                return "".join(parts)
            parts.append(f"[{finding.name}]")
            at = finding.end
        parts.append(self._held[at:limit])
        if limit:
            self._shown = self._held[limit - 1]
        self._held = self._held[limit:]
        return "".join(parts)

    def _findings(self) -> list[Finding]:
        """Returns the findings in the text that is held, by their places in it."""
        before = len(self._shown)
        return [
            Finding(max(0, found.start - before), found.end - before, found.name)
            for found in self._rules.findings(self._shown + self._held)
            if found.end > before
        ]
