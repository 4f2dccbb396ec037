"""Records of KV blocks in LMDB.

Two tables in one transaction: `records` by key, and `order` with the number and the size of each write by key, which is
small enough to be read as a whole at the start."""

import logging
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path

import lmdb

from headrace.storage.private_files import close_all_to_others

MAX_UNCLEAN_ENDS = 3
"""Times in a row that the process may end without closing the table, before the table is emptied. LMDB maps its file: a
damaged page ends the process, which would otherwise happen at every start."""
MARK = "unclean-ends"
FILES = ("data.mdb", "lock.mdb")
ENTRY_BYTES = 256
"""Bytes that a record takes at most beside its pages: its key in both tables."""
_ENTRY = struct.Struct(">QId")  # number of the write, bytes of the record, seconds in which its block is computed
_log = logging.getLogger(__name__)


class LmdbTable:
    """Records by key, in the order of their writes. Raises OSError and lmdb.Error. One thread writes, others read."""

    def __init__(self, folder: Path, map_bytes: int) -> None:
        """Opens the table of a folder. One that does not open, or is larger than `map_bytes`, is emptied."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._mark = folder / MARK
        _count_end(folder, self._mark, map_bytes)
        try:
            self._environment = _opened(folder, map_bytes)
        except lmdb.Error as error:
            _log.warning("the store of KV blocks does not open, and begins empty", extra={"reason": str(error)})
            _empty(folder)
            self._environment = _opened(folder, map_bytes)
        self._records = self._environment.open_db(b"records")
        self._order = self._environment.open_db(b"order")
        close_all_to_others(folder)
        self._page_bytes = int(self._environment.stat()["psize"])
        self._next = 0

    def entries(self) -> list[tuple[bytes, int, float]]:
        """Returns the key, the bytes and the seconds of each record, in the order of the writes."""
        with self._environment.begin(db=self._order) as transaction, transaction.cursor() as cursor:
            found = sorted((*_ENTRY.unpack(value), key) for key, value in cursor)
        self._next = found[-1][0] + 1 if found else 0
        return [(key, size, seconds) for _, size, seconds, key in found]

    def put(self, records: Iterable[tuple[bytes, bytes]], seconds: float = 0.0) -> None:
        """Adds records, or replaces them: all, or none where it raises. `seconds`: time in which one of their blocks is
        computed."""
        with self._environment.begin(write=True) as transaction:
            for key, record in records:
                transaction.put(key, record, db=self._records)
                transaction.put(key, _ENTRY.pack(self._next, len(record), seconds), db=self._order)
                self._next += 1

    def remove(self, keys: Iterable[bytes]) -> None:
        """Removes records, whose room the next call of `put` can use."""
        with self._environment.begin(write=True) as transaction:
            for key in keys:
                transaction.delete(key, db=self._records)
                transaction.delete(key, db=self._order)

    def read(self, keys: Sequence[bytes]) -> list[bytes]:
        """Returns the records at the beginning of `keys` that are here."""
        found = []
        with self._environment.begin(db=self._records) as transaction:
            for key in keys:
                record = transaction.get(key)
                if record is None:
                    break
                found.append(record)
        return found

    def room_of(self, size: int) -> int:
        """Returns the bytes of the pages that a record of `size` bytes takes."""
        return -(-(size + 16) // self._page_bytes) * self._page_bytes + ENTRY_BYTES

    def close(self) -> None:
        """Closes the table. No thread may be reading."""
        self._environment.sync(True)
        self._environment.close()
        self._mark.unlink(missing_ok=True)


def _opened(folder: Path, map_bytes: int) -> lmdb.Environment:
    # What a commit wrote is on the disk before the page that names it: a power failure leaves an earlier state whole.
    return lmdb.open(str(folder), map_size=map_bytes, max_dbs=2, metasync=False, mode=0o600)


def _count_end(folder: Path, mark: Path, map_bytes: int) -> None:
    """Notes that the process has the table, and empties one that ended it too often, or is too large."""
    try:
        ends = int(mark.read_text())
    except (OSError, ValueError):
        ends = 0
    data = folder / FILES[0]
    is_large = data.exists() and data.stat().st_size > map_bytes
    if ends >= MAX_UNCLEAN_ENDS or is_large:
        reason = "it is larger than it may be" if is_large else f"its process ended {ends} times without closing it"
        _log.warning("the store of KV blocks begins empty", extra={"reason": reason})
        _empty(folder)
        ends = 0
    mark.touch(mode=0o600)
    mark.write_text(str(ends + 1))


def _empty(folder: Path) -> None:
    for name in FILES:
        (folder / name).unlink(missing_ok=True)
