"""Metrics under the names that other tools read."""

from collections.abc import Iterable, Iterator, Mapping

from prometheus_client import Metric
from prometheus_client.registry import Collector

VLLM = {
    "headrace_requests_running": "vllm:num_requests_running",
    "headrace_requests_waiting": "vllm:num_requests_waiting",
    "headrace_kv_usage_ratio": "vllm:kv_cache_usage_perc",
    "headrace_time_to_first_token_seconds": "vllm:time_to_first_token_seconds",
    "headrace_inter_token_latency_seconds": "vllm:inter_token_latency_seconds",
    "headrace_request_duration_seconds": "vllm:e2e_request_latency_seconds",
    "headrace_prompt_tokens": "vllm:prompt_tokens",
    "headrace_output_tokens": "vllm:generation_tokens",
    "headrace_prefix_cache_queries": "vllm:prefix_cache_queries",
    "headrace_prefix_cache_hits": "vllm:prefix_cache_hits",
}
"""Names in vLLM, by ours. The model's label is `model_name` there."""


class MetricAliases(Collector):
    """Shows some metrics of other collectors a second time, under other names and with another label for the model."""

    def __init__(self, sources: Iterable[Collector], names: Mapping[str, str], model_label: str) -> None:
        """`names`: other names, by those of the sources. Metrics that have none are left out."""
        self._sources = tuple(sources)
        self._names = names
        self._model_label = model_label

    def collect(self) -> Iterator[Metric]:
        """Yields the metrics as they are now."""
        for source in self._sources:
            for metric in source.collect():
                if (name := self._names.get(metric.name)) is not None:
                    yield self._renamed(metric, name)

    def _renamed(self, metric: Metric, name: str) -> Metric:
        other = Metric(name, metric.documentation, metric.type)
        for sample in metric.samples:
            labels = {self._model_label if key == "model" else key: value for key, value in sample.labels.items()}
            suffix = sample.name.removeprefix(metric.name)
            other.add_sample(name + suffix, labels, sample.value, sample.timestamp, sample.exemplar)
        return other
