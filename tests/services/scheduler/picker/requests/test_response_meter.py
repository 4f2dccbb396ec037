"""Tokens of a response are the ones that it tells, or the events of a stream."""

from headrace.scheduler.picker.requests.response_meter import TAIL_BYTES, ResponseMeter


def test_usage_is_found_in_pieces_behind_a_long_body() -> None:
    meter = ResponseMeter(is_stream=False)
    for piece in (b"x" * 3 * TAIL_BYTES, b'"usage": {"completion_to', b'kens": 12}}'):
        meter.add(piece)
    assert meter.token_count() == 12


def test_events_are_counted_where_no_usage_is_told() -> None:
    meter = ResponseMeter(is_stream=True)
    for _ in range(12):
        meter.add(b"data: {}\n\n")
    assert meter.token_count() == 10
    meter.add(b'data: {"usage": {"output_tokens": 9}}\n\n')
    assert meter.token_count() == 9


def test_a_response_that_tells_nothing_has_no_count() -> None:
    meter = ResponseMeter(is_stream=False)
    meter.add(b"data: data: data:")
    assert meter.token_count() == 0
