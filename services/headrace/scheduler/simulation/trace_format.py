"""Formats of traces: the columns by which each is recognized, and how a row becomes an arrival."""

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from headrace.errors import InvalidRequest
from headrace.scheduler.simulation.traffic import UNSHARED_ID, Arrival

MAX_TOKENS = 10_000_000
"""Largest count of tokens that is believed."""

Row = Mapping[str, Any]
"""Values of one row by column: texts in CSV, any JSON in JSONL."""


@dataclass(frozen=True, slots=True)
class TraceFormat:
    """One public form of a trace."""

    name: str
    columns: tuple[str, ...]
    """Columns that a row must have. It may have more."""
    arrival: Callable[[Row], Arrival]
    """Reads a row. Raises InvalidRequest that names the column."""

    def fits(self, columns: Collection[str]) -> bool:
        """Whether rows with these columns are of this form."""
        return set(self.columns) <= set(columns)


def _azure(row: Row) -> Arrival:
    return Arrival(_date(row, "TIMESTAMP"), _count(row, "ContextTokens"), _count(row, "GeneratedTokens"))


def _burst_gpt(row: Row) -> Arrival:
    return Arrival(_number(row, "Timestamp"), _count(row, "Request tokens"), _count(row, "Response tokens"))


def _mooncake(row: Row) -> Arrival:
    time = _number(row, "timestamp") / 1000
    return Arrival(time, _count(row, "input_length"), _count(row, "output_length"), block_ids=_block_ids(row))


def _usage(row: Row) -> Arrival:
    # A record is written when its request ends.
    time = _number(row, "time") - _number(row, "seconds")
    tokens = (_count(row, "prompt_tokens"), _count(row, "output_tokens"))
    return Arrival(time, *tokens, tenant=str(row.get("tenant", "")), block_ids=_block_ids(row))


FORMATS = (
    TraceFormat("Azure, CSV", ("TIMESTAMP", "ContextTokens", "GeneratedTokens"), _azure),
    TraceFormat("BurstGPT, CSV", ("Timestamp", "Request tokens", "Response tokens"), _burst_gpt),
    TraceFormat("Mooncake, JSONL", ("timestamp", "input_length", "output_length"), _mooncake),
    TraceFormat("Headrace's records of usage, JSONL", ("time", "seconds", "prompt_tokens", "output_tokens"), _usage),
)
"""All forms that are read. No row fits two of them."""


def format_of(columns: Collection[str]) -> TraceFormat:
    """Returns the form that has these columns. Raises InvalidRequest with the accepted forms."""
    for known in FORMATS:
        if known.fits(columns):
            return known
    accepted = "; ".join(f"{', '.join(known.columns)} ({known.name})" for known in FORMATS)
    found = ", ".join(str(column)[:40] for column in list(columns)[:12]) or "none"
    raise InvalidRequest(f"no known trace has the columns {found}; accepted are: {accepted}")


def _date(row: Row, column: str) -> float:
    """Returns the seconds since 1970 of a time such as 2023-11-16 18:17:03.9799600. A time without a zone is UTC."""
    text = str(row[column]).strip()
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidRequest(
            f"{column} is {text[:40]!r}; it must be a time such as 2023-11-16 18:17:03.9799600"
        ) from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def _number(row: Row, column: str) -> float:
    value = row[column]
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise InvalidRequest(f"{column} is {str(value)[:40]!r}; it must be a number")
    return number


def _count(row: Row, column: str) -> int:
    number = _number(row, column)
    if number != int(number) or not 0 <= number <= MAX_TOKENS:
        raise InvalidRequest(
            f"{column} is {str(row[column])[:40]!r}; it must be an integer from 0 to {MAX_TOKENS:,}: tokens"
        )
    return int(number)


def _block_ids(row: Row) -> tuple[int, ...]:
    found = row.get("hash_ids") or []
    if not isinstance(found, list) or not all(type(each) is int and 0 <= each < UNSHARED_ID for each in found):
        raise InvalidRequest(
            f"hash_ids is {str(found)[:40]!r}; it must be a list of integers from 0 to {UNSHARED_ID - 1}"
        )
    return tuple(found)
