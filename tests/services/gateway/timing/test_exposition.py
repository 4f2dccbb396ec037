"""Metrics as Prometheus asks for them."""

import pytest
from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families as plain

from headrace.gateway.timing.exposition import exposed, register
from headrace.gateway.timing.request_record import RequestRecord

PROMETHEUS_3 = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;version=0.0.4;q=0.3"
PROMETHEUS_2 = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"


def registry(compat: str) -> CollectorRegistry:
    made = CollectorRegistry()
    record = RequestRecord(model="exposed", trace_id="ab" * 16)
    record.observe_first_token(record.stopwatch.started + 0.5)
    register(made, compat, Gauge("headrace_requests_running", "r", ["model"], registry=None))
    return made


@pytest.mark.parametrize("accept", [PROMETHEUS_2, PROMETHEUS_3])
def test_exemplars_lead_to_traces_under_vllms_names_too(accept: str) -> None:
    body, content_type = exposed(registry("vllm"), accept)
    assert content_type.startswith("application/openmetrics-text; version=1.0.0")
    families = {family.name: family for family in open_metrics(body.decode())}
    found = families["vllm:time_to_first_token_seconds"].samples
    exemplars = [s.exemplar.labels for s in found if s.exemplar and s.labels.get("model_name") == "exposed"]
    assert exemplars == [{"trace_id": "ab" * 16}]


def test_others_get_the_plain_format() -> None:
    body, content_type = exposed(registry("vllm"), "*/*")
    assert content_type.startswith("text/plain; version=0.0.4")
    assert "vllm:num_requests_running" in {family.name for family in plain(body.decode())}


def test_vllms_names_are_shown_only_where_wanted() -> None:
    assert b"vllm:" not in exposed(registry("none"), "")[0]
