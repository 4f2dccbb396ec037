"""Reads requests that a running platform has served from a file."""

import json
from pathlib import Path

import msgspec

from headrace.access.usage_record import UsageRecord, from_line
from headrace.cli.commands.simulate.recorded_request import RecordedRequest, recorded
from headrace.errors import InvalidRequest
from headrace.load_generator.saved_run import load_run

FINISHED = "finished"


def read_run(path: Path, model: str) -> list[RecordedRequest]:
    """Returns the finished requests of a file: a run that `headrace bench --save` has written, or a gateway's records
    of usage, of which those of the model count. Raises InvalidRequest for a file without any."""
    found = [recorded(record) for record in load_run(path).good] if _is_run(path) else _of_usage(path, model)
    if not found:
        raise InvalidRequest(f"{path} has no finished request of {model}")
    return sorted(found, key=lambda request: request.start)


def _is_run(path: Path) -> bool:
    """Whether a file is one JSON object, and not one a line."""
    try:
        with path.expanduser().open(encoding="utf-8") as file:
            return "format" in json.loads(file.readline())
    except OSError as error:
        raise InvalidRequest(f"{path} cannot be read: {error.strerror or error}") from None
    except (ValueError, TypeError):
        return False


def _of_usage(path: Path, model: str) -> list[RecordedRequest]:
    lines = path.expanduser().read_bytes().splitlines(keepends=True)
    records = [record for line in lines if (record := from_line(line)) is not None]
    return [_of_record(record) for record in records if record.model == model and record.outcome == FINISHED]


def _of_record(record: UsageRecord) -> RecordedRequest:
    return RecordedRequest(
        start=record.time - record.seconds,
        prompt_token_count=record.prompt_tokens,
        output_token_count=record.output_tokens,
        e2e=record.seconds,
        tenant=record.tenant,
        hash_ids=() if record.hash_ids is msgspec.UNSET else record.hash_ids,
    )
