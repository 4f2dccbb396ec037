"""Ids of a request are made of one another, and told apart again."""

from headrace.domain.ids import attempt_id, belongs_to, client_id_of, new_request_id, sequence_id, trace_attributes


def test_each_id_contains_the_one_before() -> None:
    request = new_request_id("my.own-id#1")
    sequence = sequence_id(request, 3)
    attempt = attempt_id(sequence, 2)
    assert request.startswith("my.own-id#1.")
    assert request != new_request_id("my.own-id#1")
    assert (sequence, attempt) == (f"{request}-3", f"{request}-3#2")
    assert all(
        belongs_to(part, whole) for part, whole in ((attempt, sequence), (sequence, request), (request, request))
    )
    assert not belongs_to(sequence_id(request, 30), sequence)


def test_the_clients_id_is_found_in_each() -> None:
    request = new_request_id("a.b")
    assert {client_id_of(name) for name in (request, sequence_id(request, 0))} == {"a.b"}
    assert client_id_of("plain") == "plain"


def test_spans_name_request_sequence_and_attempt() -> None:
    sequence = sequence_id(new_request_id("a"), 1)
    found = trace_attributes(sequence, 4)
    assert found == {"headrace.request_id": "a", "headrace.sequence_id": sequence, "headrace.attempt": 4}
    assert "headrace.attempt" not in trace_attributes(sequence)
