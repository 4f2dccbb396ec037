"""The wire's words for a request are the engine's."""

import struct

import pytest

from headrace.engine.contract.grammar import Grammar, GrammarKind
from headrace.engine.contract.request import Delta, FinishReason
from headrace.errors import InvalidRequest
from headrace.v1 import generation_pb2 as pb
from headrace.v1.worker_pb2 import TokenDelta
from headrace.worker.requests.conversion import to_sampling_params, to_token_delta
from headrace.worker.requests.sessions import Session


def test_a_grammar_is_taken_over() -> None:
    message = pb.Grammar(kind=pb.GRAMMAR_KIND_REGEX, text="a+", parameter="guided_regex")
    grammar = to_sampling_params(pb.SamplingParams(grammar=message)).grammar
    assert grammar == Grammar(GrammarKind.REGEX, "a+")
    assert grammar.param == "guided_regex"
    assert to_sampling_params(pb.SamplingParams()).grammar is None


def test_an_embedding_crosses_the_wire_bit_by_bit() -> None:
    values = tuple(struct.unpack("<4f", struct.pack("<4f", 0.1, -1e-38, 3.0, 2**-140)))
    delta = Delta("r#1", 0, (), finish_reason=FinishReason.STOP, embedding=values)
    sent = to_token_delta(delta, Session("r", 1, "g", "")).SerializeToString()
    received = TokenDelta.FromString(sent)
    assert tuple(received.embedding.values) == values
    assert received.finish_reason == pb.FINISH_REASON_STOP
    assert not to_token_delta(Delta("r#1", 0, (5,)), Session("r", 1, "g", "")).HasField("embedding")


def test_every_kind_of_the_wire_is_known_to_the_engine() -> None:
    kinds = {value for value in pb.GrammarKind.values() if value != pb.GRAMMAR_KIND_UNSPECIFIED}
    converted = {to_sampling_params(pb.SamplingParams(grammar=pb.Grammar(kind=kind))).grammar for kind in kinds}
    assert {grammar.kind for grammar in converted if grammar} == set(GrammarKind)


@pytest.mark.parametrize("kind", [pb.GRAMMAR_KIND_UNSPECIFIED, 99])
def test_other_kinds_are_refused(kind: "pb.GrammarKind.ValueType") -> None:
    with pytest.raises(InvalidRequest) as caught:
        to_sampling_params(pb.SamplingParams(grammar=pb.Grammar(kind=kind, parameter="guided_json")))
    assert caught.value.param == "guided_json"
