"""The record of a request says how much time it has left, whatever the clocks of two hosts say."""

import time
from dataclasses import replace

import pytest

from headrace.gateway.request.answer_name import AnswerName
from headrace.gateway.resumption.streamed_request import StreamedRequest
from headrace.gateway.resumption.translation import to_record, to_streamed_request
from headrace.v1.cache_pb2 import StreamRecord

LEFT, AGE, HOUR = 50.0, 20.0, 3600.0


def streamed() -> StreamedRequest:
    expires = time.monotonic() + LEFT
    return StreamedRequest("k", "/v1/x", b"{}", {"x-headrace-class": "batch"}, "m", AnswerName("a", 12.0), 7, expires)


@pytest.mark.parametrize("ahead", [-HOUR, 0.0, HOUR])
def test_time_left_depends_on_no_wall_clock(monkeypatch: pytest.MonkeyPatch, ahead: float) -> None:
    request, now = streamed(), time.time()
    record = to_record(request)
    monkeypatch.setattr(time, "time", lambda: now + ahead)
    read = to_streamed_request(record, AGE)
    assert read == replace(request, expires=read.expires)
    assert read.expires == pytest.approx(request.expires - AGE, abs=5.0)


def test_a_record_of_an_earlier_release_is_read_by_the_wall_clock() -> None:
    record = StreamRecord.FromString(to_record(streamed()))
    record.ClearField("time_left_seconds")
    read = to_streamed_request(record.SerializeToString(), AGE)
    assert read.expires - time.monotonic() == pytest.approx(LEFT, abs=5.0)
