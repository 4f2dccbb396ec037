"""Input of a batch: a file with one request per line (https://platform.openai.com/docs/guides/batch)."""

import codecs
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

MODERATIONS = "/v1/moderations"
ENDPOINTS = ("/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses", MODERATIONS)
"""Endpoints that the requests of a batch may call."""
MAX_FAULTS = 100
"""Maximum number of errors reported per file."""
MAX_ID_LENGTH = 512
MAX_VALUE_BYTES = 8 * MAX_ID_LENGTH
"""Bytes of an id, each character of which may be escaped."""
_FOREGROUND = ("stream", "background")
"""Fields of a request that make no sense without a connected client."""


@dataclass(frozen=True, slots=True)
class BatchLine:
    """One request of a batch."""

    custom_id: str
    body: bytes


@dataclass(slots=True)
class InputReport:
    """Result of the check of an input."""

    line_count: int = 0
    model: str | None = None
    """The model of all lines."""
    errors: list[dict[str, Any]] = field(default_factory=list)
    """Faults as OpenAI's API tells them, with the numbers of their lines."""

    def blame(self, code: str, message: str, line: int | None = None, param: str | None = None) -> None:
        """Adds a fault, unless there are enough."""
        if len(self.errors) < MAX_FAULTS:
            self.errors.append({"code": code, "message": message, "line": line, "param": param})


_ABSENT = msgspec.Raw(b"null")


class _Line(msgspec.Struct):
    """Fields of a line, unread: a line of eight megabytes may hold millions of objects."""

    custom_id: msgspec.Raw = _ABSENT
    method: msgspec.Raw = _ABSENT
    url: msgspec.Raw = _ABSENT
    body: msgspec.Raw = _ABSENT


class _Body(msgspec.Struct):
    """Fields of a request that are checked before it is sent, unread."""

    model: msgspec.Raw = _ABSENT
    stream: msgspec.Raw = _ABSENT
    background: msgspec.Raw = _ABSENT


def _value(raw: msgspec.Raw) -> Any:
    """Returns a value of one of these fields. One that is too large for any of them is not read."""
    return msgspec.json.decode(raw) if len(bytes(raw)) <= MAX_VALUE_BYTES else True


class _Request(msgspec.Struct):
    custom_id: str
    body: msgspec.Raw


class BatchInput:
    """Checks a file of requests, and reads it line by line."""

    def __init__(self, path: Path, endpoint: str, max_lines: int, max_line_bytes: int) -> None:
        self._path = path
        self._endpoint = endpoint
        self._max_lines = max_lines
        self._max_line_bytes = max_line_bytes

    def check(self) -> InputReport:
        """Reads all lines, and returns their errors. Raises OSError."""
        report, ids = InputReport(), set[str]()
        for number, line in self._numbered():
            report.line_count += 1
            if report.line_count > self._max_lines:
                report.blame("too_many_lines", f"there are more than {self._max_lines} lines: make several batches")
                break
            self._check_line(line, number, report, ids)
        if report.line_count == 0:
            report.blame("empty_file", "the input file has no lines")
        return report

    def lines(self) -> Iterator[BatchLine]:
        """Yields the requests of a file that was checked. Raises OSError."""
        for _, line in self._numbered():
            request = msgspec.json.decode(line, type=_Request)
            yield BatchLine(request.custom_id, bytes(request.body))

    def _numbered(self) -> Iterator[tuple[int, bytes]]:
        """Yields lines with their numbers, counted from 1. Empty ones are passed over; of one that is too long comes
        as much as shows it."""
        limit = self._max_line_bytes + 1
        with self._path.open("rb") as file:
            number = 0
            while line := file.readline(limit + 1):
                number += 1
                if number == 1:
                    line = line.removeprefix(codecs.BOM_UTF8)
                if len(line) > limit:
                    while (rest := file.readline(limit)) and not rest.endswith(b"\n"):
                        pass
                if line.strip():
                    yield number, line

    def _check_line(self, line: bytes, number: int, report: InputReport, ids: set[str]) -> None:
        if len(line) > self._max_line_bytes + 1:
            message = f"this line has more than {self._max_line_bytes} bytes, the most of a request"
            report.blame("line_too_long", message, number)
            return
        try:
            content = msgspec.json.decode(line, type=_Line)
            has_body = bytes(content.body).lstrip().startswith(b"{")
            body = msgspec.json.decode(content.body, type=_Body) if has_body else None
            custom_id, method, url = map(_value, (content.custom_id, content.method, content.url))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            report.blame("invalid_json_line", "this line is not a JSON object", number)
            return
        self._check_id(custom_id, number, report, ids)
        if method != "POST":
            report.blame("invalid_method", "method must be POST", number, "method")
        if url != self._endpoint:
            message = f"url must be the endpoint of the batch, {self._endpoint}"
            report.blame("invalid_url" if url not in ENDPOINTS else "mismatched_url", message, number, "url")
        if body is None:
            report.blame("missing_required_parameter", "body must be an object", number, "body")
        else:
            self._check_body(body, number, report)

    def _check_id(self, custom_id: object, number: int, report: InputReport, ids: set[str]) -> None:
        if not isinstance(custom_id, str) or not 1 <= len(custom_id) <= MAX_ID_LENGTH:
            message = f"custom_id must be a string of 1 to {MAX_ID_LENGTH} characters"
            report.blame("missing_required_parameter", message, number, "custom_id")
        elif custom_id in ids:
            message = f"custom_id {custom_id[:80]!r} stands on an earlier line too: each must be unique"
            report.blame("duplicate_custom_id", message, number, "custom_id")
        else:
            ids.add(custom_id)

    def _check_body(self, body: "_Body", number: int, report: InputReport) -> None:
        for name in _FOREGROUND:
            if _value(getattr(body, name)):
                report.blame("unsupported_parameter", f"{name} cannot be used in a batch", number, f"body.{name}")
        model = _value(body.model)
        if model is None and self._endpoint == MODERATIONS:
            return
        if not isinstance(model, str):
            report.blame("missing_required_parameter", "body.model must be a string", number, "body.model")
        elif report.model is None:
            report.model = model
        elif model != report.model:
            message = f"the model is {model[:80]!r}, on an earlier line {report.model[:80]!r}: a batch has one"
            report.blame("mismatched_model", message, number, "body.model")
