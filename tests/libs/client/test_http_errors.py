"""Errors in HTTP responses, of the platform and of what stands before it."""

import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from headrace.client.http_errors import error_of
from headrace.client.retries import SHOULD_RETRY
from headrace.errors import (
    DeadlineExceeded,
    InternalError,
    InvalidRequest,
    ModelNotFound,
    Overloaded,
    RateLimited,
    StageFailed,
    Unavailable,
)


def body(message: str, code: str, param: str | None = None) -> bytes:
    return json.dumps({"error": {"message": message, "type": "t", "param": param, "code": code}}).encode()


def test_the_code_decides() -> None:
    error = error_of(404, {}, body("no such model", "model_not_found", "model"))
    assert (type(error), error.message, error.param) == (ModelNotFound, "no such model", "model")
    lost = error_of(503, {}, body("the worker was lost (stage: decode)", "stage_failed"))
    assert (type(lost), lost.message, lost.stage) == (StageFailed, "the worker was lost", "decode")
    assert type(error_of(500, {}, body("oh", "internal_error"))) is InternalError
    assert type(error_of(500, {}, body("oh", "from_the_future"))) is InternalError


@pytest.mark.parametrize(
    ("status", "kind"),
    [(502, Unavailable), (504, DeadlineExceeded), (429, RateLimited), (418, InvalidRequest), (500, InternalError)],
)
def test_without_a_code_the_status_decides(status: int, kind: type[Exception]) -> None:
    for content in (b"<html>Bad gateway</html>", b'{"error": "flat"}', b"[" * 5000, b"\xff", b""):
        assert type(error_of(status, {}, content)) is kind


def test_headers_say_when_to_retry() -> None:
    content = body("full", "overloaded")
    headers = {"retry-after": "2", "retry-after-ms": "1500", "x-should-retry": "true"}
    error = error_of(503, headers, content)
    assert (type(error), error.retry_after, error.details[SHOULD_RETRY]) == (Overloaded, 1.5, "true")
    assert error_of(503, {"retry-after": "2"}, content).retry_after == 2.0
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=30))
    assert 25 < (error_of(503, {"retry-after": date}, content).retry_after or 0) <= 30
    assert error_of(503, {"retry-after": "soon"}, content).retry_after is None
    assert error_of(503, {}, content).retry_after is None
