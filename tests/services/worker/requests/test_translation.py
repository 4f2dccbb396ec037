"""The wire's words for a request are the engine's."""

import struct

import pytest

from headrace.engine.contract.grammar import Grammar, GrammarKind
from headrace.engine.contract.request import Delta, FinishReason
from headrace.errors import InvalidRequest, StageFailed
from headrace.errors.status import from_status
from headrace.v1 import generation_pb2 as pb
from headrace.v1.worker_pb2 import TokenDelta
from headrace.worker.requests.frame import Frame, SessionDelta, Timings
from headrace.worker.requests.translation import to_frame, to_sampling_params


def sent(delta: Delta, timings: Timings | None = None) -> TokenDelta:
    (converted,) = to_frame(Frame(1, [SessionDelta("r", 1, delta, timings=timings)])).deltas
    return converted


def test_a_grammar_is_taken_over() -> None:
    message = pb.Grammar(kind=pb.GRAMMAR_KIND_REGEX, text="a+", parameter="guided_regex")
    grammar = to_sampling_params(pb.SamplingParams(grammar=message)).grammar
    assert grammar == Grammar(GrammarKind.REGEX, "a+")
    assert grammar.param == "guided_regex"
    assert to_sampling_params(pb.SamplingParams()).grammar is None


def test_an_embedding_crosses_the_wire_bit_by_bit() -> None:
    values = tuple(struct.unpack("<4f", struct.pack("<4f", 0.1, -1e-38, 3.0, 2**-140)))
    delta = Delta("r#1", 0, (), finish_reason=FinishReason.STOP, embedding=values)
    received = TokenDelta.FromString(sent(delta).SerializeToString())
    assert tuple(received.embedding.values) == values
    assert received.finish_reason == pb.FINISH_REASON_STOP
    assert not sent(Delta("r#1", 0, (5,))).HasField("embedding")


def test_an_error_and_the_timings_cross_the_wire() -> None:
    failed = SessionDelta("r", 2, error=StageFailed("gone", stage="dispatch"))
    frame = to_frame(Frame(9, [failed, SessionDelta("s", 1, Delta("s#1", 4, (7,)))]))
    assert (frame.step, [(delta.request_id, delta.attempt) for delta in frame.deltas]) == (9, [("r", 2), ("s", 1)])
    assert isinstance(from_status(frame.deltas[0].error), StageFailed)
    assert not frame.deltas[1].HasField("error")
    timings = sent(Delta("r#1", 0, (), finish_reason=FinishReason.LENGTH), Timings(0.25, 1.5, 2.0)).timings
    durations = (timings.queue_duration, timings.prefill_duration, timings.decode_duration)
    assert [duration.ToMilliseconds() for duration in durations] == [250, 1500, 2000]


def test_every_kind_of_the_wire_is_known_to_the_engine() -> None:
    kinds = {value for value in pb.GrammarKind.values() if value != pb.GRAMMAR_KIND_UNSPECIFIED}
    converted = {to_sampling_params(pb.SamplingParams(grammar=pb.Grammar(kind=kind))).grammar for kind in kinds}
    assert {grammar.kind for grammar in converted if grammar} == set(GrammarKind)


@pytest.mark.parametrize("kind", [pb.GRAMMAR_KIND_UNSPECIFIED, 99])
def test_other_kinds_are_refused(kind: "pb.GrammarKind.ValueType") -> None:
    with pytest.raises(InvalidRequest) as caught:
        to_sampling_params(pb.SamplingParams(grammar=pb.Grammar(kind=kind, parameter="guided_json")))
    assert caught.value.param == "guided_json"
