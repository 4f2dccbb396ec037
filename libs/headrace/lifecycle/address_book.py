"""Addresses of known workers, kept on disk: a service that starts finds them again without NATS."""

import asyncio
import json
import logging
from collections import OrderedDict
from pathlib import Path

from headrace.storage.whole_file import write_whole

WRITE_SECONDS = 1.0
MAX_WORKERS = 10_000

_log = logging.getLogger(__name__)


class AddressBook:
    """Keeps one address per worker. A file that cannot be read or written is logged and does no other harm."""

    def __init__(self, path: Path | None) -> None:
        """Without a path nothing is kept."""
        self._path = path
        self._addresses: OrderedDict[str, str] = OrderedDict()
        self._changed = asyncio.Event()

    def read(self) -> list[str]:
        """Returns the addresses that an earlier process of this service wrote."""
        if self._path is None:
            return []
        try:
            kept = json.loads(self._path.read_text())
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as error:
            _log.warning("cannot read the addresses of workers", extra={"path": str(self._path), "error": repr(error)})
            return []
        values = kept.values() if isinstance(kept, dict) else []
        return sorted({value for value in values if isinstance(value, str)})[:MAX_WORKERS]

    def note(self, worker_id: str, address: str) -> None:
        """Notes the address of a worker."""
        if address and self._addresses.get(worker_id) != address:
            self._addresses[worker_id] = address
            self._changed.set()
        while len(self._addresses) > MAX_WORKERS:
            self._addresses.popitem(last=False)

    def forget(self, worker_id: str) -> None:
        """Removes a worker that said goodbye."""
        if self._addresses.pop(worker_id, None) is not None:
            self._changed.set()

    async def keep(self) -> None:
        """Writes changes to the file until cancelled, at most once in WRITE_SECONDS."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            if self._path is not None:
                self._write(self._path)
            await asyncio.sleep(WRITE_SECONDS)

    def _write(self, path: Path) -> None:
        """Replaces the file as a whole."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # The next worker to be noted writes it again; the event loop must not wait for a disk.
            write_whole(path, json.dumps(self._addresses), durable=False)
        except OSError as error:
            _log.warning("cannot write the addresses of workers", extra={"path": str(path), "error": repr(error)})
