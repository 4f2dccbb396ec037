"""Answers that one gateway has got for a batch: a file that only grows, with one line for each request.

Each gateway that runs a batch writes its own file, numbered by its fence. One that has lost the batch without knowing
it can harm no other's file, and a line that was torn when a gateway ended stays the last of its file.
"""

import asyncio
import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from headrace.gateway.batches.storage.disk import on_disk
from headrace.storage.whole_file import open_new, sync, sync_folder

_NAME = "results-{:012d}.jsonl"
OK = 200


class _Response(msgspec.Struct):
    status_code: int


class _Head(msgspec.Struct):
    custom_id: str
    response: _Response | None


@dataclass(frozen=True, slots=True)
class Result:
    """One answer."""

    custom_id: str
    is_completed: bool
    line: bytes


@contextlib.contextmanager
def opened_log(folder: Path, fence: int) -> Iterator["ResultLog"]:
    """Yields the log that a gateway with this fence writes. Raises FileExistsError if another one has the same."""
    file = open_new(folder / _NAME.format(fence))
    try:
        sync_folder(folder)
        yield ResultLog(file)
    finally:
        # What could not be written fails once more.
        with contextlib.suppress(OSError):
            file.close()


class ResultLog:
    """Appends answers to a file. Each is on disk before `add` returns; concurrent calls share one flush."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._waiting: list[bytes] = []
        self._writing = asyncio.Lock()
        self._failure: OSError | None = None

    async def add(self, content: Any) -> None:
        """Appends an answer. Raises OSError, also on every later call, because part of a line may have been written."""
        self._waiting.append(msgspec.json.encode(content) + b"\n")
        async with self._writing:
            if self._failure is not None:
                raise self._failure
            if self._waiting:
                lines, self._waiting = self._waiting, []
                await on_disk(self._write, lines)

    def _write(self, lines: Iterable[bytes]) -> None:
        try:
            self._file.writelines(lines)
            sync(self._file)
        except OSError as error:
            self._failure = error
            raise


def last_fence(folder: Path) -> int:
    """Returns the largest fence under which answers of a batch were written, or 0."""
    return max((int(path.stem.rpartition("-")[2]) for path in _logs(folder)), default=0)


def read_results(folder: Path) -> Iterator[Result]:
    """Yields the answers of a batch, each request's once: the first counts. Torn lines are left out."""
    seen = set[str]()
    for path in _logs(folder):
        with path.open("rb") as file:
            for line in file:
                head = _head(line)
                if head is not None and head.custom_id not in seen:
                    seen.add(head.custom_id)
                    is_completed = head.response is not None and head.response.status_code == OK
                    yield Result(head.custom_id, is_completed, line)


def _logs(folder: Path) -> list[Path]:
    return sorted(folder.glob("results-*.jsonl"))


def _head(line: bytes) -> _Head | None:
    if not line.endswith(b"\n"):
        return None
    with contextlib.suppress(msgspec.DecodeError):
        return msgspec.json.decode(line, type=_Head)
    return None
