"""Registers the metrics of the gateway, and their names in other tools."""

from prometheus_client import CollectorRegistry
from prometheus_client.registry import Collector

from headrace.gateway.delivery.token_meter import INTER_TOKEN_LATENCY, OUTPUT_TOKENS, PROMPT_TOKENS
from headrace.gateway.timing.request_metrics import REQUEST_DURATION, TIME_TO_FIRST_TOKEN
from headrace.telemetry.metric_aliases import VLLM, MetricAliases

MODEL_LABEL = "model_name"


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
