"""Pace of an endpoint, from what its counters gained between two scrapes, and from the first tokens of streams."""

from headrace.scheduler.picker.endpoints.reported_load import ReportedLoad

NEWEST_SHARE = 0.3
"""Weight of the newest measurement against all before it."""
MIN_PROMPT_TOKENS = 64.0
"""Prompt tokens below which a gain says nothing about the rate."""


class EndpointPace:
    """Averages of the newest measurements. 0: not measured yet."""

    def __init__(self) -> None:
        self.step_seconds = 0.0
        self._counted_rate = 0.0
        self._seen_rate = 0.0

    @property
    def prefill_rate(self) -> float:
        """Prompt tokens per second, without the ones that a prefix cache held: by its counters, if it has any."""
        return self._counted_rate or self._seen_rate

    def note_first_token(self, token_count: int, seconds: float) -> None:
        """Takes in that a prompt, of which so many tokens were to be computed, had its first token after a time."""
        if token_count >= MIN_PROMPT_TOKENS and seconds > 0:
            self._seen_rate = _average(self._seen_rate, token_count / seconds)

    def measure(self, before: ReportedLoad, after: ReportedLoad) -> None:
        """Takes in two scrapes that follow each other. Counters that fell have been started again, and say nothing."""
        tokens = _gain(before.prompt_tokens, after.prompt_tokens) - _gain(before.cached_tokens, after.cached_tokens)
        seconds = _gain(before.prefill_seconds, after.prefill_seconds)
        if tokens >= MIN_PROMPT_TOKENS and seconds > 0:
            self._counted_rate = _average(self._counted_rate, tokens / seconds)
        steps, step_seconds = _gain(before.step_count, after.step_count), _gain(before.step_seconds, after.step_seconds)
        if steps >= 1 and step_seconds > 0:
            self.step_seconds = _average(self.step_seconds, step_seconds / steps)


def _gain(before: float | None, after: float | None) -> float:
    return 0.0 if before is None or after is None else max(0.0, after - before)


def _average(old: float, new: float) -> float:
    return new if not old else old + NEWEST_SHARE * (new - old)
