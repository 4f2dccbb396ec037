"""Metrics of the gateway as Prometheus reads them, and their names in other tools."""

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector

from headrace.gateway.timing.request_metrics import REQUEST_DURATION, TIME_TO_FIRST_TOKEN
from headrace.gateway.timing.token_meter import INTER_TOKEN_LATENCY, OUTPUT_TOKENS, PROMPT_TOKENS
from headrace.telemetry.metric_aliases import VLLM, MetricAliases

MODEL_LABEL = "model_name"
OPEN_METRICS = "application/openmetrics-text"


def collectors(compat: str, platform: Collector) -> list[Collector]:
    """Returns the collectors to register beside those of single metrics. `compat`: `vllm`, or `none`."""
    if compat != "vllm":
        return [platform]
    own = (TIME_TO_FIRST_TOKEN, INTER_TOKEN_LATENCY, REQUEST_DURATION, PROMPT_TOKENS, OUTPUT_TOKENS)
    return [platform, MetricAliases([platform, *own], VLLM, MODEL_LABEL)]


def register(registry: CollectorRegistry, compat: str, platform: Collector) -> list[Collector]:
    """Registers them, and returns them so that they can be unregistered."""
    made = collectors(compat, platform)
    for collector in made:
        registry.register(collector)
    return made


def exposed(registry: CollectorRegistry, accept: str) -> tuple[bytes, str]:
    """Returns the metrics and their content type: OpenMetrics 1.0, which has exemplars, where it is accepted, else the
    text format of Prometheus 0.0.4."""
    if OPEN_METRICS in accept:
        # Colons are legal in names, but the library's negotiation would turn those of vLLM's names into underscores.
        body: bytes = openmetrics.generate_latest(registry, openmetrics.ALLOWUTF8)  # type: ignore[no-untyped-call]
        return body, openmetrics.CONTENT_TYPE_LATEST
    return generate_latest(registry), CONTENT_TYPE_PLAIN_0_0_4
