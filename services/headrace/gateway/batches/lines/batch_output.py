"""Output and error file of a batch, made of what all gateways that ran it have answered."""

import hashlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from headrace.gateway.batches.lines.batch_input import BatchInput
from headrace.gateway.batches.lines.line_answer import unanswered
from headrace.gateway.batches.lines.result_log import Result, read_results
from headrace.gateway.batches.storage.batch_record import BatchRecord, BatchStatus
from headrace.gateway.batches.storage.file_store import FileStore
from headrace.gateway.batches.storage.stored_file import OUTPUT, StoredFile
from headrace.gateway.batches.storage.timed_id import BATCH, FILE


class BatchOutput:
    """Writes both files. Writing them again, after the end of a gateway, makes files of the same ids."""

    def __init__(self, batch: BatchRecord, folder: Path, files: FileStore, seconds: float) -> None:
        """`folder`: that of the batch. `seconds`: time for which files are kept."""
        self._batch = batch
        self._folder = folder
        self._files = files
        self._seconds = batch.output_seconds or seconds

    def write(self, requests: BatchInput, ending: BatchStatus) -> None:
        """Writes the files that have lines, and notes their ids and numbers of lines in the record. Raises OSError."""
        batch = self._batch
        batch.completed_count = batch.failed_count = 0
        batch.output_file_id = self._write_file("output", self._completed)
        batch.error_file_id = self._write_file("error", lambda: self._failed(requests, ending))

    def _completed(self) -> Iterator[bytes]:
        for result in self._results():
            if result.is_completed:
                self._batch.completed_count += 1
                yield result.line

    def _failed(self, requests: BatchInput, ending: BatchStatus) -> Iterator[bytes]:
        """Yields the lines of requests that failed, and of ones that were not executed, which do not count."""
        done = set[str]()
        for result in self._results():
            done.add(result.custom_id)
            if not result.is_completed:
                self._batch.failed_count += 1
                yield result.line
        if ending is not BatchStatus.COMPLETED:
            for line in requests.lines():
                if line.custom_id not in done:
                    yield msgspec.json.encode(unanswered(self._batch.id, line.custom_id, ending)) + b"\n"

    def _results(self) -> Iterator[Result]:
        return read_results(self._folder)

    def _write_file(self, kind: str, lines: Callable[[], Iterator[bytes]]) -> str | None:
        """Writes a file of a batch and returns its id, or None where there are no lines."""
        source = lines()
        first = next(source, None)
        if first is None:
            return None
        batch, file_id, byte_count = self._batch, _file_id(self._batch.id, kind), len(first)
        with self._files.content(batch.tenant, file_id) as file:
            file.write(first)
            for line in source:
                byte_count += file.write(line)
        now = int(time.time())
        facts = StoredFile(
            id=file_id,
            filename=f"{batch.id}_{kind}.jsonl",
            purpose=OUTPUT,
            byte_count=byte_count,
            created=now,
            expires=now + int(self._seconds),
        )
        self._files.add(batch.tenant, facts)
        return file_id


def _file_id(batch_id: str, kind: str) -> str:
    """Returns an id that sorts by the time of the batch, and is the same whenever it is asked for."""
    moment = batch_id.removeprefix(BATCH)[:12]
    return f"{FILE}{moment}{hashlib.sha256(f'{batch_id}/{kind}'.encode()).hexdigest()[:20]}"
