"""Batches of all tenants, in a folder: each has its own folder, with its record, its input and what it has answered.

Only the gateway that holds the lease of a batch changes its record. Others leave a mark in its folder. All functions
wait for the disk.
"""

import contextlib
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from headrace.errors import InvalidRequest, NotFound, RateLimited
from headrace.gateway.batches.storage.batch_record import BatchRecord, BatchStatus
from headrace.gateway.batches.storage.damage import UNREADABLE, Damage
from headrace.gateway.batches.storage.tenant_folder import digest_of, tenant_folder
from headrace.gateway.batches.storage.timed_id import BATCH, is_id
from headrace.storage.whole_file import sync_folder, write_whole

RECORD, INPUT, CANCEL = "record.json", "input.jsonl", "cancel"
"""Names in the folder of a batch."""
MAX_OPEN = 200
"""Maximum number of batches of a tenant that have not ended."""
LEFT_SECONDS = 86400.0
"""Seconds after which the mark of a batch that was never made is removed."""


class LeaseLost(Exception):
    """Another gateway runs the batch now."""


class BatchStore:
    """Makes, finds and changes batches."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._open = root / "open"
        self._damage = Damage()

    def create(self, record: BatchRecord, content: Path) -> None:
        """Keeps a new batch with its input, which may be deleted from then on. Raises NotFound if it was already,
        RateLimited if the tenant has too many batches, and OSError, which leaves nothing of it."""
        self._open.mkdir(parents=True, exist_ok=True)
        if sum(name.endswith(_mark_ending(record.tenant)) for name in os.listdir(self._open)) >= MAX_OPEN:
            raise RateLimited(f"{MAX_OPEN} batches of this tenant have not ended: wait for one, or cancel it")
        try:
            self._write(record, content)
        except OSError:
            self._mark(record).unlink(missing_ok=True)
            shutil.rmtree(self.folder(record.tenant, record.id), ignore_errors=True)
            raise

    def _write(self, record: BatchRecord, content: Path) -> None:
        folder = self.folder(record.tenant, record.id)
        folder.mkdir(parents=True)
        try:
            _link(content, folder / INPUT)
        except FileNotFoundError:
            folder.rmdir()
            raise NotFound("the input file was deleted meanwhile: upload it again", param="input_file_id") from None
        # Before the record, so that no batch is forgotten that a client knows of.
        write_whole(self._mark(record), record.tenant.encode())
        self.put(record)

    def get(self, tenant: str, batch_id: str) -> BatchRecord:
        """Returns a batch. Raises NotFound."""
        found = self._read(tenant, batch_id) if is_id(batch_id, BATCH) else None
        if found is None:
            raise NotFound(f"there is no batch {batch_id[:80]!r}", param="id")
        return found

    def newest(self, tenant: str, after: str = "") -> Iterator[BatchRecord]:
        """Yields the batches of a tenant, the newest first; only those behind `after` if given."""
        folder = self.folder(tenant, "")
        for batch_id in sorted(os.listdir(folder) if folder.exists() else [], reverse=True):
            found = None if after and batch_id >= after else self._read(tenant, batch_id)
            if found is not None:
                yield found

    def put(self, record: BatchRecord) -> None:
        """Writes a record. Raises LeaseLost if a gateway with a larger fence has written it."""
        with contextlib.suppress(FileNotFoundError, *UNREADABLE):
            if _record(self.folder(record.tenant, record.id)).fence > record.fence:
                raise LeaseLost
        write_whole(self.folder(record.tenant, record.id) / RECORD, msgspec.json.encode(record))

    def close(self, record: BatchRecord) -> None:
        """Writes the record of a batch that has ended, and removes all else."""
        self.put(record)
        folder = self.folder(record.tenant, record.id)
        for path in [path for path in folder.iterdir() if path.name != RECORD]:
            path.unlink(missing_ok=True)
        self._mark(record).unlink(missing_ok=True)

    def cancel(self, tenant: str, batch_id: str) -> BatchRecord:
        """Leaves the mark that ends a batch, and returns it. Raises NotFound, and InvalidRequest if it has ended."""
        found = self.get(tenant, batch_id)
        if found.status.is_final:
            raise InvalidRequest(f"the batch is {found.status}: only one that runs can be cancelled")
        mark = self.folder(tenant, batch_id) / CANCEL
        if not mark.exists():
            write_whole(mark, str(int(time.time())).encode())
        return self.get(tenant, batch_id)

    def cancelled_at(self, record: BatchRecord) -> int | None:
        """Returns the time at which the end of a batch was requested, or None."""
        path = self.folder(record.tenant, record.id) / CANCEL
        with contextlib.suppress(FileNotFoundError):
            try:
                return int(path.read_bytes())
            except UNREADABLE:
                # A full disk had room for the file's name alone. The end was requested all the same.
                return int(path.stat().st_mtime)
        return None

    def open_batches(self) -> list[BatchRecord]:
        """Returns the batches of all tenants that have not ended, the oldest first."""
        found = []
        for path in sorted(self._open.iterdir()) if self._open.exists() else []:
            try:
                tenant = path.read_text()
            except (FileNotFoundError, *UNREADABLE) as error:
                self._note("mark", path, error)
                continue
            record = self._read(tenant, path.name.partition(".")[0])
            with contextlib.suppress(FileNotFoundError):
                if record is not None and not record.status.is_final:
                    found.append(record)
                elif record is not None or path.stat().st_mtime < time.time() - LEFT_SECONDS:
                    path.unlink()
        return found

    def remove_older(self, seconds: float) -> None:
        """Removes the batches of all tenants that were made more than so long ago and have ended."""
        oldest = time.time() - seconds
        for folder in self._root.glob("tenants/*/batches/*"):
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                if folder.stat().st_mtime < oldest and self._is_over(folder):
                    shutil.rmtree(folder)

    def _is_over(self, folder: Path) -> bool:
        """Whether a batch has ended, or cannot be read."""
        try:
            return _record(folder).status.is_final
        except UNREADABLE:
            return True

    def folder(self, tenant: str, batch_id: str) -> Path:
        """Returns the folder of a batch."""
        return tenant_folder(self._root, tenant) / "batches" / batch_id

    def _mark(self, record: BatchRecord) -> Path:
        """Returns the path of what tells all gateways that a batch has not ended."""
        return self._open / f"{record.id}{_mark_ending(record.tenant)}"

    def _note(self, kind: str, path: Path, error: Exception) -> None:
        if not isinstance(error, FileNotFoundError):
            self._damage.note(kind, path, error)

    def _read(self, tenant: str, batch_id: str) -> BatchRecord | None:
        folder = self.folder(tenant, batch_id)
        try:
            record = _record(folder)
        except (FileNotFoundError, *UNREADABLE) as error:
            self._note("batch", folder, error)
            return None
        cancelled_at = None if record.status.is_final else self.cancelled_at(record)
        if cancelled_at is not None:
            record.status = BatchStatus.CANCELLING
            record.times[BatchStatus.CANCELLING] = cancelled_at
        return record


def _mark_ending(tenant: str) -> str:
    return f".{digest_of(tenant)}"


def _record(folder: Path) -> BatchRecord:
    return msgspec.json.decode((folder / RECORD).read_bytes(), type=BatchRecord)


def _link(content: Path, target: Path) -> None:
    """Gives a file a second name, or copies it where a volume cannot do that."""
    try:
        os.link(content, target)
    except FileNotFoundError:
        raise
    except OSError:
        shutil.copyfile(content, target)
    sync_folder(target.parent)
