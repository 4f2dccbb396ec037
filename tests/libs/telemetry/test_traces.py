"""Choice of the traces that a service records which strangers call."""

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

from headrace.telemetry.traces import edge_sampler, is_recorded


@pytest.mark.parametrize("flag", [0, 1])
@pytest.mark.parametrize(("ratio", "obeys"), [(0.0, False), (1.0, False), (0.0, True), (1.0, True)])
def test_the_flag_of_a_client_decides_only_where_it_may(flag: int, ratio: float, obeys: bool) -> None:
    caller = SpanContext(trace_id=2**100, span_id=1, is_remote=True, trace_flags=TraceFlags(flag))
    context = trace.set_span_in_context(NonRecordingSpan(caller))
    decision = edge_sampler(ratio, obeys).should_sample(context, caller.trace_id, "chat m").decision
    assert (decision is Decision.RECORD_AND_SAMPLE) == bool(flag if obeys else ratio)


@pytest.mark.parametrize("ratio", [0.0, 1.0])
def test_a_trace_that_begins_here_is_recorded_by_the_ratio(ratio: float) -> None:
    decision = edge_sampler(ratio, True).should_sample(None, 2**100, "chat m").decision
    assert (decision is Decision.RECORD_AND_SAMPLE) == bool(ratio)


def test_nothing_is_recorded_without_an_endpoint() -> None:
    assert not is_recorded("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
