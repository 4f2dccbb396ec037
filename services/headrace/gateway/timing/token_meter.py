"""Metrics of the tokens of one sequence."""

import time

from prometheus_client import Counter, Histogram

TOKEN_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.5, 1, 2.5, 10)

INTER_TOKEN_LATENCY = Histogram(
    "headrace_inter_token_latency_seconds",
    "Between consecutive tokens of one sequence",
    ["model"],
    buckets=TOKEN_BUCKETS,
)
PROMPT_TOKENS = Counter("headrace_prompt_tokens", "Prompt tokens of sequences that got a first token", ["model"])
OUTPUT_TOKENS = Counter("headrace_output_tokens", "Tokens delivered", ["model"])


class TokenMeter:
    """Counts tokens and times the gaps between them."""

    def __init__(self, model: str, prompt_token_count: int) -> None:
        self._prompt_tokens = PROMPT_TOKENS.labels(model=model)
        self._prompt_token_count = prompt_token_count
        self._last: float | None = None
        """Time of the last token, in monotonic seconds. None: there was none."""
        self._output_tokens = OUTPUT_TOKENS.labels(model=model)
        self._inter_token_latency = INTER_TOKEN_LATENCY.labels(model=model)

    def count(self, token_count: int) -> None:
        """Counts new tokens, or an embedding, which has none."""
        now = time.monotonic()
        self._output_tokens.inc(token_count)
        if self._last is None:
            self._prompt_tokens.inc(self._prompt_token_count)
        else:
            for _ in range(token_count):
                self._inter_token_latency.observe((now - self._last) / token_count)
        self._last = now
