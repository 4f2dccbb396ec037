"""Reads traffic from a trace file."""

import csv
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import IO

from headrace.errors import InvalidRequest
from headrace.scheduler.simulation.trace_format import Row, TraceFormat, format_of
from headrace.scheduler.simulation.traffic import Arrival, Traffic


def read_trace(path: Path) -> Traffic:
    """Reads a trace of any known form, which its first row shows. Raises InvalidRequest that names the file, the line,
    the error there, and what is accepted."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            traffic = Traffic.of(_arrivals(file, path))
    except OSError as error:
        raise InvalidRequest(f"{path} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise InvalidRequest(f"{path} is not text in UTF-8; unpack it if it is compressed") from None
    if not traffic.arrivals:
        raise InvalidRequest(f"{path} has no request with a prompt and an output")
    return traffic


def _arrivals(file: IO[str], path: Path) -> Iterator[Arrival]:
    known: TraceFormat | None = None
    for number, read in _rows(file):
        try:
            row = read()
            known = known or format_of(list(row))
            if missing := [column for column in known.columns if row.get(column) is None]:
                raise InvalidRequest(f"the row lacks {', '.join(missing)} ({known.name})")
            arrival = known.arrival(row)
        except InvalidRequest as error:
            raise InvalidRequest(f"{path}, line {number}: {error.message}", param="trace") from None
        yield arrival


def _rows(file: IO[str]) -> Iterator[tuple[int, Callable[[], Row]]]:
    """Yields line numbers and what reads the row there: JSONL where the first character that is no space is a brace,
    else CSV with a header."""
    start = file.tell()
    is_json = file.read(4096).lstrip()[:1] == "{"
    file.seek(start)
    return _json_rows(file) if is_json else _csv_rows(file)


def _csv_rows(file: IO[str]) -> Iterator[tuple[int, Callable[[], Row]]]:
    lines = csv.reader(file, strict=True)
    header: list[str] = []
    try:
        for values in lines:
            if header:
                yield lines.line_num, partial(_csv_row, header, values)
            else:
                header = [value.strip() for value in values]
                yield from _complaint(header)
    except csv.Error as error:
        yield lines.line_num, partial(_refuse, f"it is not CSV: {error}")


def _complaint(header: list[str]) -> Iterator[tuple[int, Callable[[], Row]]]:
    """Yields what refuses a wrong header, even where no row follows it."""
    try:
        format_of(header)
    except InvalidRequest as error:
        yield 1, partial(_refuse, error.message)


def _csv_row(header: list[str], values: list[str]) -> Row:
    if len(values) != len(header):
        raise InvalidRequest(f"the row has {len(values)} values for {len(header)} columns")
    return dict(zip(header, values, strict=True))


def _json_rows(file: IO[str]) -> Iterator[tuple[int, Callable[[], Row]]]:
    for number, line in enumerate(file, start=1):
        if line.strip():
            yield number, partial(_json_row, line)


def _json_row(line: str) -> Row:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise InvalidRequest(f"it is not JSON: {error}") from None
    if not isinstance(row, dict):
        raise InvalidRequest("it must be a JSON object")
    return row


def _refuse(message: str) -> Row:
    raise InvalidRequest(message)
