"""Files of all tenants, in a folder: the content of each, and its metadata beside it.

The content comes first and goes last, so that a file that can be found is whole. All functions wait for the disk.
"""

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import msgspec

from headrace.errors import NotFound, PayloadTooLarge
from headrace.gateway.batches.storage.damage import UNREADABLE, Damage
from headrace.gateway.batches.storage.stored_file import StoredFile
from headrace.gateway.batches.storage.tenant_folder import tenant_folder
from headrace.gateway.batches.storage.timed_id import FILE, is_id
from headrace.storage.whole_file import DRAFT, drafted, write_whole

CONTENT, FACTS = ".jsonl", ".json"
LEFT_SECONDS = 86400.0
"""Seconds after which what an upload left behind, when its gateway ended, is removed."""


@dataclass(frozen=True, slots=True)
class FileStore:
    """Adds, finds and removes files."""

    root: Path
    tenant_bytes: int
    """Maximum bytes of all files of a tenant."""
    seconds: float
    """Seconds for which files are kept whose makers do not say."""
    damage: Damage = field(default_factory=Damage)

    @contextlib.contextmanager
    def content(self, tenant: str, file_id: str) -> Iterator[BinaryIO]:
        """Yields a file to write the content of a new file to. It is found once `add` tells what it is."""
        folder = self._folder(tenant)
        folder.mkdir(parents=True, exist_ok=True)
        with drafted(folder / f"{file_id}{CONTENT}") as file:
            yield file

    def add(self, tenant: str, file: StoredFile) -> None:
        """Lets a file be found whose content is written."""
        write_whole(self._folder(tenant) / f"{file.id}{FACTS}", msgspec.json.encode(file))

    def get(self, tenant: str, file_id: str) -> StoredFile:
        """Returns a file. Raises NotFound, also for one that has expired."""
        found = self._read(tenant, file_id) if is_id(file_id, FILE) else None
        if found is None:
            raise NotFound(f"there is no file {file_id[:80]!r}: it was deleted, has expired or never was", param="id")
        return found

    def content_path(self, tenant: str, file_id: str) -> Path:
        """Returns the path of the content of a file, be it there or not."""
        return self._folder(tenant) / f"{file_id}{CONTENT}"

    def newest(self, tenant: str, after: str = "", *, is_reversed: bool = False) -> Iterator[StoredFile]:
        """Yields the files of a tenant, the newest first, or last if reversed; only those behind `after` if given."""
        for file_id in sorted(self._ids(tenant), reverse=not is_reversed):
            if after and (file_id <= after if is_reversed else file_id >= after):
                continue
            found = self._read(tenant, file_id)
            if found is not None:
                yield found

    def delete(self, tenant: str, file_id: str) -> None:
        """Removes a file. Raises NotFound."""
        self.get(tenant, file_id)
        self._remove(self._folder(tenant), file_id)

    def discard(self, tenant: str, file_id: str) -> None:
        """Removes what there is of a file that could not be added."""
        self._remove(self._folder(tenant), file_id)

    def remaining(self, tenant: str) -> int:
        """Returns how many bytes a tenant may still store beside its files, and the inputs and answers of its batches.
        Raises PayloadTooLarge if there are none."""
        used = sum(_sizes(tenant_folder(self.root, tenant)).values())
        if used >= self.tenant_bytes:
            raise PayloadTooLarge(
                f"the files and open batches of this tenant have {used} bytes, and {self.tenant_bytes} are allowed: "
                "delete some first"
            )
        return self.tenant_bytes - used

    def remove_expired(self) -> None:
        """Removes the files of all tenants that have expired, and what uploads left behind."""
        now = time.time()
        for folder in self.root.glob("tenants/*/files"):
            for path in list(folder.iterdir()):
                with contextlib.suppress(FileNotFoundError):
                    if path.suffix == FACTS and self._expires(path) <= now:
                        self._remove(folder, path.stem)
                    elif path.stat().st_mtime < now - LEFT_SECONDS and _is_left_over(path):
                        path.unlink()

    def _expires(self, path: Path) -> float:
        """Returns when a file expires; one whose facts are damaged when it has been there for as long as files are."""
        try:
            return _facts(path).expires
        except UNREADABLE:
            return path.stat().st_mtime + self.seconds

    def _read(self, tenant: str, file_id: str) -> StoredFile | None:
        path = self._folder(tenant) / f"{file_id}{FACTS}"
        try:
            found = _facts(path)
        except FileNotFoundError:
            return None
        except UNREADABLE as error:
            self.damage.note("file", path, error)
            return None
        return found if found.expires > time.time() else None

    def _ids(self, tenant: str) -> list[str]:
        with contextlib.suppress(FileNotFoundError):
            return [path.stem for path in self._folder(tenant).iterdir() if path.suffix == FACTS]
        return []

    def _remove(self, folder: Path, file_id: str) -> None:
        (folder / f"{file_id}{FACTS}").unlink(missing_ok=True)
        (folder / f"{file_id}{CONTENT}").unlink(missing_ok=True)

    def _folder(self, tenant: str) -> Path:
        return tenant_folder(self.root, tenant) / "files"


def _sizes(folder: Path) -> dict[tuple[int, int], int]:
    """Returns the bytes of each file in a tenant's folder. The input of a batch may be the file that it was made of."""
    sizes = {}
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                status = os.stat(os.path.join(parent, name))
                sizes[status.st_dev, status.st_ino] = status.st_size
    return sizes


def _facts(path: Path) -> StoredFile:
    return msgspec.json.decode(path.read_bytes(), type=StoredFile)


def _is_left_over(path: Path) -> bool:
    return path.suffix == DRAFT or (path.suffix == CONTENT and not path.with_suffix(FACTS).exists())
