"""A form is read the same however it is cut, and refused where it cannot be read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import InvalidRequest, UnsupportedMediaType
from headrace.gateway.http.forms.upload_form import MAX_FIELD_BYTES, UploadForm

KIND = "multipart/form-data; boundary=abc"


def part(name: str, content: bytes, filename: str = "") -> bytes:
    shown = f'; filename="{filename}"' if filename else ""
    return f'--abc\r\ncontent-disposition: form-data; name="{name}"{shown}\r\n\r\n'.encode() + content + b"\r\n"


def read(body: bytes, size: int = 1 << 20) -> tuple[bytes, UploadForm]:
    form = UploadForm(KIND)
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    content = b"".join(piece for given in pieces for piece in form.feed(given))
    form.end()
    return content, form


@given(st.binary(max_size=300), st.integers(1, 50))
def test_it_is_read_the_same_however_it_is_cut(content: bytes, size: int) -> None:
    lines = content.replace(b"--abc", b"")
    body = part("purpose", b"batch") + part("file", lines, "a.jsonl") + part("x[y]", b"3") + b"--abc--\r\n"
    found, form = read(body, size)
    assert (found, form.filename) == (lines, "a.jsonl")
    assert form.fields == {"purpose": "batch", "x[y]": "3"}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (part("file", b"x", "a"), "cannot be read"),
        (part("purpose", b"x") + b"--abc--\r\n", "no field named file"),
        (part("file", b"x") + b"--abc--\r\n", "no field named file"),
        (part("file", b"x", "a") * 2 + b"--abc--\r\n", "two files"),
        (part("x", b"y" * (MAX_FIELD_BYTES + 1)), "longer than"),
        (part("x", b"y") * 17, "too many fields"),
        (part("x", b"\xff") + b"--abc--\r\n", "cannot be read"),
        (b"no form at all", "cannot be read"),
        (b"", "cannot be read"),
        (b"--abc\r\nzork\r\n\r\n", "cannot be read"),
    ],
)
def test_what_cannot_be_read_is_refused(body: bytes, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        read(body)


@pytest.mark.parametrize("kind", ["", "application/json", "multipart/form-data", "multipart/mixed; boundary=a"])
def test_other_kinds_are_refused(kind: str) -> None:
    with pytest.raises(UnsupportedMediaType):
        UploadForm(kind)
