"""Responses on disk, per tenant, in LMDB: bounded in bytes and age, and kept through a crash.

Two tables in one transaction: `responses` by (tenant, key), and `order` by time of writing, oldest first."""

import errno
import hashlib
import logging
import shutil
import struct
import time
from collections.abc import Callable
from pathlib import Path

import lmdb

from headrace import failpoints
from headrace.errors import StorageFull
from headrace.storage.private_files import close_all_to_others

_HEADER = struct.Struct(">dQ")  # expiry as Unix seconds, position in `order`
_POSITION = struct.Struct(">Q")
_FREE_SHARE = 0.7
"""Share of the map beyond which the oldest responses are evicted: LMDB needs free pages to write, even to delete."""

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_ROOM = 2**20
"""Bytes that a write may take beside its value: pages of LMDB that are copied."""
_log = logging.getLogger(__name__)


class ResponseStore:
    """Key-value store of responses. Not thread-safe; one process writes."""

    def __init__(self, folder: Path, max_bytes: int, clock: Callable[[], float] = time.time) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        close_all_to_others(folder)
        self._folder = folder
        self._clock = clock
        self._max_value_bytes = max_bytes // 16
        self._environment = _opened(folder, max_bytes)
        self._responses = self._environment.open_db(b"responses")
        self._order = self._environment.open_db(b"order")
        self._usable_pages = max_bytes * _FREE_SHARE / self._environment.stat()["psize"]

    def get(self, tenant: str, key: bytes) -> bytes | None:
        """Returns a response, or None when there is none or it has expired."""
        with self._environment.begin(db=self._responses) as transaction:
            entry = transaction.get(_name(tenant, key))
        if entry is None or _HEADER.unpack_from(entry)[0] <= self._clock():
            return None
        return failpoints.damage("cache.value", bytes(entry[_HEADER.size :]))

    def put(self, tenant: str, key: bytes, value: bytes, lifetime: float) -> bool:
        """Keeps a response for `lifetime` seconds. Returns False if it is too large to be worth keeping. Raises
        StorageFull."""
        if len(value) > self._max_value_bytes:
            return False
        try:
            failpoints.hit("cache.write")
            self._write(_name(tenant, key), value, lifetime)
        except (OSError, lmdb.Error) as error:
            if self._is_full(error, len(value)):
                raise StorageFull from error
            raise
        return True

    def _write(self, name: bytes, value: bytes, lifetime: float) -> None:
        with self._environment.begin(write=True) as transaction:
            self._remove(transaction, name)
            self._make_room(transaction)
            position = self._next_position(transaction)
            transaction.put(_POSITION.pack(position), name, db=self._order)
            header = _HEADER.pack(self._clock() + lifetime, position)
            transaction.put(name, header + value, db=self._responses)

    def __len__(self) -> int:
        with self._environment.begin() as transaction:
            return int(transaction.stat(self._responses)["entries"])

    def close(self) -> None:
        self._environment.sync(True)
        self._environment.close()

    def _is_full(self, error: OSError | lmdb.Error, size: int) -> bool:
        number = error.errno if isinstance(error, OSError) else error.code
        # LMDB calls it an input or output error if only a part of what it wrote found room.
        return number in _FULL or (number == errno.EIO and shutil.disk_usage(self._folder).free < _ROOM + size)

    def _next_position(self, transaction: lmdb.Transaction) -> int:
        with transaction.cursor(self._order) as cursor:
            return _POSITION.unpack(cursor.key())[0] + 1 if cursor.last() else 0

    def _remove(self, transaction: lmdb.Transaction, name: bytes) -> None:
        entry = transaction.get(name, db=self._responses)
        if entry is not None:
            transaction.delete(_POSITION.pack(_HEADER.unpack_from(entry)[1]), db=self._order)
            transaction.delete(name, db=self._responses)

    def _make_room(self, transaction: lmdb.Transaction) -> None:
        while self._used_pages(transaction) > self._usable_pages:
            with transaction.cursor(self._order) as cursor:
                if not cursor.first():
                    return
                position, name = cursor.item()
            transaction.delete(position, db=self._order)
            transaction.delete(name, db=self._responses)

    def _used_pages(self, transaction: lmdb.Transaction) -> int:
        stats = (transaction.stat(database) for database in (self._responses, self._order))
        return sum(stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"] for stat in stats)


def _name(tenant: str, key: bytes) -> bytes:
    return hashlib.blake2b(tenant.encode(), digest_size=16).digest() + hashlib.blake2b(key, digest_size=32).digest()


def _opened(folder: Path, max_bytes: int) -> lmdb.Environment:
    """Opens the database of a folder. One that does not open is moved aside, which is logged: an empty cache is better
    than none."""
    try:
        return lmdb.open(str(folder), map_size=max_bytes, max_dbs=2, sync=False, metasync=False, mode=0o600)
    except lmdb.Error as error:
        aside = folder.with_name(f"{folder.name}.broken-{time.time_ns()}")
        _log.error("the cache does not open: moved aside", extra={"error": str(error), "aside": str(aside)})
        folder.rename(aside)
        folder.mkdir(mode=0o700, parents=True)
        return lmdb.open(str(folder), map_size=max_bytes, max_dbs=2, sync=False, metasync=False, mode=0o600)
