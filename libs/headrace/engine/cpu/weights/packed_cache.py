"""A folder of packed weights, so that the next start need not pack again.

Files are written under a temporary name and renamed, so readers see only complete files even with concurrent writers.
Each user of a file holds a lock on it, so a file in use is never removed.
"""

import contextlib
import fcntl
import functools
import logging
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.cpu.weights.kept_choice import choice_path
from headrace.engine.cpu.weights.packed_file import read_packed, write_packed
from headrace.engine.cpu.weights.packed_weights import PackedWeights

MIN_BYTES = 4 << 20
"""Smallest size in bytes worth keeping. Smaller models exist only for tests."""
UNFINISHED = ".new"
"""Suffix of files still being written."""
WRITABLE_BY_OTHERS = 0o022

UNREADABLE = (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, MemoryError, RecursionError)
"""Errors that a header of any JSON may cause, beside those of the checks."""

_log = logging.getLogger(__name__)


class PackedWeightsCache:
    """Keeps at most `max_bytes` of packed weights in a folder that only this user may read, by LRU eviction."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self._folder = folder
        self._max_bytes = max_bytes

    def load(self, path: Path, config: DecoderConfig) -> PackedWeights | None:
        """Maps the weights of a file. Returns None if it is missing, or untrustworthy, which is logged."""
        try:
            with path.open("rb") as file:
                _check_owner(file)
                # The mapping holds the lock after the file is closed.
                _lock(file, fcntl.LOCK_SH)
                weights = read_packed(file, config, _key(path))
                # Only eviction reads the time, and it may belong to another user or lie on a read-only file system.
                with contextlib.suppress(OSError):
                    os.utime(file.fileno())
                return weights
        except FileNotFoundError:
            return None
        except UNREADABLE as error:
            _log.warning("packed weights are made again", extra={"path": str(path), "reason": str(error)})
            return None

    def save(self, path: Path, weights: PackedWeights) -> None:
        """Keeps weights for the next start. Skips small models; logs a failure to write."""
        if weights.byte_count < MIN_BYTES:
            return
        if weights.byte_count > self._max_bytes:
            facts = {"bytes": weights.byte_count, "limit": self._max_bytes}
            _log.warning("packed weights are not kept: they are larger than the limit, raise it", extra=facts)
            return
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._write(path, weights)
            self._make_room(path)
        except OSError as error:
            _log.warning("packed weights cannot be kept", extra={"path": str(path), "error": str(error)})

    def _write(self, path: Path, weights: PackedWeights) -> None:
        # mkstemp creates files that only this user can read and write.
        number, name = tempfile.mkstemp(dir=self._folder, prefix=f"{path.stem}.", suffix=UNFINISHED)
        draft = Path(name)
        with open(number, "wb") as file:
            try:
                _lock(file, fcntl.LOCK_EX)
                write_packed(file, weights, _key(path))
                _lock(file, fcntl.LOCK_SH)
                draft.replace(path)
            except BaseException:
                draft.unlink(missing_ok=True)
                raise

    def _make_room(self, kept: Path) -> None:
        """Removes files that killed processes left unfinished, then the least recently used until the rest fit."""
        for path in self._folder.glob(f"*{UNFINISHED}"):
            _remove_unused(path)
        found = list(self._existing())
        total = sum(facts.st_size for facts, _ in found)
        for facts, path in sorted(found, key=lambda entry: entry[0].st_mtime_ns):
            if total <= self._max_bytes:
                return
            if path != kept and _remove_unused(path):
                _log.info("packed weights are removed to make room", extra={"path": str(path), "bytes": facts.st_size})
                choice_path(path).unlink(missing_ok=True)
                total -= facts.st_size

    def _existing(self) -> Iterator[tuple[os.stat_result, Path]]:
        """Yields the files with their sizes and times. Another worker may remove some meanwhile."""
        for path in self._folder.glob("*.packed"):
            with contextlib.suppress(FileNotFoundError):
                facts = path.stat()
                if stat.S_ISREG(facts.st_mode):
                    yield facts, path


def _key(path: Path) -> str:
    return path.stem


def _check_owner(file: BinaryIO) -> None:
    """Raises ValueError for a file that another user wrote or may write: checksums do not protect against them."""
    facts = os.fstat(file.fileno())
    if facts.st_uid not in (0, os.geteuid()) or facts.st_mode & WRITABLE_BY_OTHERS:
        mode = oct(facts.st_mode & 0o777)
        raise ValueError(f"another user may have written it: its owner is {facts.st_uid}, its mode {mode}")


def _lock(file: BinaryIO, kind: int) -> bool:
    """Locks a file. Returns False on a file system without locks. Raises BlockingIOError if another process holds
    it."""
    try:
        fcntl.flock(file.fileno(), kind | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError as error:
        _log.info("the file system of the packed weights has no locks", extra={"error": str(error)})
        return False
    return True


def _remove_unused(path: Path) -> bool:
    """Removes a file that is not in use. Returns whether it is gone, be it by another worker."""
    try:
        with path.open("rb") as file:
            if not _lock(file, fcntl.LOCK_EX):
                _log_kept_for_ever(path.parent)
                return False
            path.unlink()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


@functools.cache
def _log_kept_for_ever(folder: Path) -> None:
    message = (
        "packed weights stay, whatever room they take: their file system has no locks that tell which are in use; "
        "remove some by hand, or keep them elsewhere (packed_folder)"
    )
    _log.warning(message, extra={"path": str(folder)})
