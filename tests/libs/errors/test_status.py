"""Every error survives the trip over gRPC, and maps to the status that the contract names."""

import pytest

from headrace import errors
from headrace.errors.status import from_status, to_status
from headrace.errors.table import ROWS, row_of

HTTP = {
    errors.InvalidRequest: 400,
    errors.Unsupported: 400,
    errors.Unauthenticated: 401,
    errors.Forbidden: 403,
    errors.ModelNotFound: 404,
    errors.QueueTimeout: 408,
    errors.UploadTimeout: 408,
    errors.PayloadTooLarge: 413,
    errors.UnsupportedMediaType: 415,
    errors.RequestCancelled: 499,
    errors.InternalError: 500,
    errors.Overloaded: 503,
    errors.Unavailable: 503,
    errors.DeadlineExceeded: 504,
}


@pytest.mark.parametrize("row", ROWS[:-1], ids=lambda row: row.code)
def test_round_trip(row: object) -> None:
    error_class = row.error  # type: ignore[attr-defined]
    error = error_class("words", param="p", stage="decode", retry_after=1.5, details={"worker": "w"})
    back = from_status(to_status(error))
    assert type(back) is error_class
    assert (back.message, back.param, back.stage, back.retry_after) == ("words", "p", "decode", 1.5)
    assert back.details == {"worker": "w"}


@pytest.mark.parametrize(("error_class", "status"), HTTP.items())
def test_http_status(error_class: type[errors.HeadraceError], status: int) -> None:
    assert row_of(error_class()).http_status == status


def test_what_is_not_ours_tells_nothing() -> None:
    status = to_status(RuntimeError("secret path /etc/passwd"))
    assert "secret" not in status.message
    assert type(from_status(status)) is errors.InternalError


def test_every_class_has_a_row_of_its_own() -> None:
    classes = {getattr(errors, name) for name in errors.__all__} - {errors.InternalError}
    assert classes == {row.error for row in ROWS}
    assert len({row.code for row in ROWS}) == len(ROWS)


def test_the_docstring_is_the_default_message() -> None:
    assert errors.Overloaded().message == "Too many requests are waiting; try again later."


def test_a_long_field_is_quoted_only_at_both_its_ends() -> None:
    name = "é" * 100_000
    error = errors.ModelNotFound(f"model {name} does not exist; there are: a, b", param=name)
    assert error.message.startswith("model é")
    assert error.message.endswith("é does not exist; there are: a, b")
    assert len(error.message) < 800
    assert error.param is not None
    assert len(error.param) < 200
    assert len(to_status(error).SerializeToString()) < 4000
