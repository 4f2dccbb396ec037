"""Runs of a load test as files, to look at and to compare."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from headrace.errors import InvalidRequest
from headrace.load_generator.closed_loop import LoadResult
from headrace.load_generator.stream_client import StreamRecord

FORMAT = "headrace-bench-1"


@dataclass(frozen=True, slots=True)
class SavedRun:
    """Summary of a run, and a record of each request with times in seconds since the first was sent."""

    summary: dict[str, Any]
    records: list[StreamRecord]
    created: str
    """Time of the run, ISO 8601."""

    @property
    def seconds(self) -> float:
        """Time from the first request to the end of the last."""
        return max((record.end for record in self.records), default=0.0)

    @property
    def good(self) -> list[StreamRecord]:
        """Requests that were answered."""
        return [record for record in self.records if not record.error and record.token_times]

    def request_rates(self, slice_count: int) -> list[float]:
        """Returns the requests answered per second, in slices of equal time."""
        return self._rates(slice_count, [(record.end, 1.0) for record in self.good])

    def token_rates(self, slice_count: int) -> list[float]:
        """Returns the output tokens per second, in slices of equal time. An event counts as its share of the tokens of
        its request."""
        shares = [(record, record.output_token_count / len(record.token_times)) for record in self.good]
        return self._rates(slice_count, [(time, share) for record, share in shares for time in record.token_times])

    def _rates(self, slice_count: int, moments: list[tuple[float, float]]) -> list[float]:
        width = self.seconds / slice_count
        sums = [0.0] * (slice_count if width else 0)
        for time, weight in moments if width else ():
            sums[min(slice_count - 1, int(time / width))] += weight
        return [total / width for total in sums]


def run_of(result: LoadResult, summary: dict[str, Any]) -> SavedRun:
    """Makes the run of a result that has just come."""
    begin = min((record.start for record in result.records), default=0.0)
    records = [
        StreamRecord(
            record.start - begin,
            [time - begin for time in record.token_times],
            record.end - begin,
            record.output_token_count,
            record.error,
            record.input_token_count,
        )
        for record in sorted(result.records, key=lambda record: record.start)
    ]
    return SavedRun(summary, records, datetime.now(UTC).isoformat(timespec="seconds"))


def save_run(run: SavedRun, path: Path) -> None:
    """Writes a run as JSON, with times in milliseconds. Raises InvalidRequest."""
    requests = [
        {
            "start_ms": _ms(record.start),
            "token_ms": [_ms(time) for time in record.token_times],
            "end_ms": _ms(record.end),
            "input_tokens": record.input_token_count,
            "output_tokens": record.output_token_count,
            "error": record.error,
        }
        for record in run.records
    ]
    content = {"format": FORMAT, "created": run.created, "summary": run.summary, "requests": requests}
    write_text(path, json.dumps(content))


def load_run(path: Path) -> SavedRun:
    """Reads a run. Raises InvalidRequest."""
    try:
        content = json.loads(path.expanduser().read_text())
        if content["format"] != FORMAT:
            raise InvalidRequest(f"{path} has the format {content['format']!r}; this version reads {FORMAT}")
        records = [
            StreamRecord(
                each["start_ms"] / 1000,
                [time / 1000 for time in each["token_ms"]],
                each["end_ms"] / 1000,
                each["output_tokens"],
                each["error"],
                each["input_tokens"],
            )
            for each in content["requests"]
        ]
        return SavedRun(content["summary"], records, content["created"])
    except OSError as error:
        raise InvalidRequest(f"cannot read {path}: {error.strerror}") from None
    except (KeyError, TypeError, json.JSONDecodeError, UnicodeDecodeError):
        raise InvalidRequest(f"{path} is not a run that headrace bench --save has written") from None


def write_text(path: Path, text: str) -> None:
    """Writes a file. Raises InvalidRequest."""
    try:
        path.expanduser().write_text(text)
    except OSError as error:
        raise InvalidRequest(f"cannot write {path}: {error.strerror}") from None


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
