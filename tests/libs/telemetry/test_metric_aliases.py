"""Metrics under other names, as the tools that read those names expect them."""

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

from headrace.telemetry.metric_aliases import VLLM, MetricAliases


def test_names_and_labels_are_those_of_vllm() -> None:
    registry = CollectorRegistry()
    first = Histogram("headrace_time_to_first_token_seconds", "t", ["model"], buckets=(1, 2), registry=None)
    tokens = Counter("headrace_output_tokens", "t", ["model"], registry=None)
    other = Counter("headrace_else", "t", registry=None)
    first.labels(model="m").observe(1.5)
    tokens.labels(model="m").inc(3)
    registry.register(MetricAliases([first, tokens, other], VLLM, "model_name"))
    lines = generate_latest(registry).decode().splitlines()
    assert 'vllm:time_to_first_token_seconds_bucket{le="2.0",model_name="m"} 1.0' in lines
    assert 'vllm:time_to_first_token_seconds_sum{model_name="m"} 1.5' in lines
    assert 'vllm:generation_tokens_total{model_name="m"} 3.0' in lines
    assert [line for line in lines if "else" in line] == []
