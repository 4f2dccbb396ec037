"""Load of an endpoint, read from the Prometheus metrics that it shows."""

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.errors import Unavailable

RUNNING = ("vllm:num_requests_running", "sglang:num_running_reqs", "headrace_requests_running")
WAITING = ("vllm:num_requests_waiting", "sglang:num_queue_reqs", "headrace_requests_waiting")
KV_USE = ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "sglang:token_usage", "headrace_kv_usage_ratio")
PROMPT_TOKENS = ("vllm:prompt_tokens_total", "sglang:prompt_tokens_total")
OUTPUT_TOKENS = ("vllm:generation_tokens_total", "sglang:generation_tokens_total")
CACHED_TOKENS = ("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total")
PREFILL_SECONDS = ("vllm:request_prefill_time_seconds_sum",)
STEP_SECONDS = (
    "vllm:inter_token_latency_seconds_sum",
    "vllm:time_per_output_token_seconds_sum",
    "sglang:inter_token_latency_seconds_sum",
)
STEP_COUNT = (
    "vllm:inter_token_latency_seconds_count",
    "vllm:time_per_output_token_seconds_count",
    "sglang:inter_token_latency_seconds_count",
)
CACHE_INFO = ("vllm:cache_config_info",)
"""Names of metrics by meaning; of several, the first that is shown counts."""

_ALL = (
    *RUNNING,
    *WAITING,
    *KV_USE,
    *PROMPT_TOKENS,
    *OUTPUT_TOKENS,
    *CACHED_TOKENS,
    *PREFILL_SECONDS,
    *STEP_SECONDS,
    *STEP_COUNT,
    *CACHE_INFO,
)
_LINE = re.compile(rf"^({'|'.join(map(re.escape, _ALL))})(\{{.*\}})?[ \t]+(\S+)", re.MULTILINE)
_BLOCK_SIZE = re.compile(r'[{,]block_size="(\d{1,9})"')
_BLOCK_COUNT = re.compile(r'[{,]num_gpu_blocks="(\d{1,12})"')

_Samples = Mapping[str, Sequence[tuple[str, float]]]
"""Labels and values of each metric."""


@dataclass(frozen=True, slots=True)
class ReportedLoad:
    """Load of one endpoint, summed over the engines behind it. Counters are None where it shows none."""

    running_count: int
    waiting_count: int
    kv_share: float = 0.0
    """Share of its KV cache in use, 0 to 1."""
    kv_token_count: int = 0
    """Tokens that fit its KV cache. 0: not known."""
    prompt_tokens: float | None = None
    output_tokens: float | None = None
    cached_tokens: float | None = None
    """Prompt tokens found in its prefix cache."""
    prefill_seconds: float | None = None
    """Time that prompts took to be computed."""
    step_seconds: float | None = None
    step_count: float | None = None

    @property
    def request_count(self) -> int:
        return self.running_count + self.waiting_count

    @property
    def progress(self) -> float | None:
        """Tokens computed so far. None: it does not say."""
        if self.output_tokens is None:
            return None
        return self.output_tokens + (self.prompt_tokens or 0.0)


def parse_load(text: str) -> ReportedLoad:
    """Reads metrics in Prometheus' text format. Raises Unavailable where the number of running requests is missing, or
    a number is impossible."""
    samples: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for name, labels, value in _LINE.findall(text):
        samples[name].append((labels, _number(name, value)))
    running = _total(samples, RUNNING)
    if running is None:
        raise Unavailable(f"the metrics have none of {', '.join(RUNNING)}")
    shares = next((samples[name] for name in KV_USE if name in samples), [])
    return ReportedLoad(
        running_count=int(running),
        waiting_count=int(_total(samples, WAITING) or 0),
        kv_share=min(1.0, sum(value for _, value in shares) / max(1, len(shares))),
        kv_token_count=_kv_token_count(samples),
        prompt_tokens=_total(samples, PROMPT_TOKENS),
        output_tokens=_total(samples, OUTPUT_TOKENS),
        cached_tokens=_total(samples, CACHED_TOKENS),
        prefill_seconds=_total(samples, PREFILL_SECONDS),
        step_seconds=_total(samples, STEP_SECONDS),
        step_count=_total(samples, STEP_COUNT),
    )


def _number(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < 1e18:
        raise Unavailable(f"the metric {name} is {text[:40]}")
    return value


def _total(samples: _Samples, names: Sequence[str]) -> float | None:
    return next((sum(value for _, value in samples[name]) for name in names if name in samples), None)


def _kv_token_count(samples: _Samples) -> int:
    """Adds up the KV caches of all engines. 0 where any does not say."""
    total = 0
    for name in CACHE_INFO:
        for labels, _ in samples.get(name, ()):
            size, count = _BLOCK_SIZE.search(labels), _BLOCK_COUNT.search(labels)
            if size is None or count is None:
                return 0
            total += int(size[1]) * int(count[1])
    return total
