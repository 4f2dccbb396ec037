"""The wire's words for a request are the engine's."""

import pytest

from headrace.engine.structured.grammar import Grammar, GrammarKind
from headrace.errors import InvalidRequest
from headrace.v1 import generation_pb2 as pb
from headrace.worker.conversion import to_sampling_params


def test_a_grammar_is_taken_over() -> None:
    message = pb.Grammar(kind=pb.GRAMMAR_KIND_REGEX, text="a+", parameter="guided_regex")
    grammar = to_sampling_params(pb.SamplingParams(grammar=message)).grammar
    assert grammar == Grammar(GrammarKind.REGEX, "a+")
    assert grammar.param == "guided_regex"
    assert to_sampling_params(pb.SamplingParams()).grammar is None


def test_every_kind_of_the_wire_is_known_to_the_engine() -> None:
    kinds = {value for value in pb.GrammarKind.values() if value != pb.GRAMMAR_KIND_UNSPECIFIED}
    converted = {to_sampling_params(pb.SamplingParams(grammar=pb.Grammar(kind=kind))).grammar for kind in kinds}
    assert {grammar.kind for grammar in converted if grammar} == set(GrammarKind)


@pytest.mark.parametrize("kind", [pb.GRAMMAR_KIND_UNSPECIFIED, 99])
def test_other_kinds_are_refused(kind: int) -> None:
    with pytest.raises(InvalidRequest) as caught:
        to_sampling_params(pb.SamplingParams(grammar=pb.Grammar(kind=kind, parameter="guided_json")))
    assert caught.value.param == "guided_json"
