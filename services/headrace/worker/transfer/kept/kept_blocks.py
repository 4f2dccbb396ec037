"""KV blocks of one model on a disk, by their names."""

import logging
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

from headrace.engine.contract.request import BlockEvents
from headrace.kv.kept_name import kept_name
from headrace.storage.private_files import close_all_to_others
from headrace.worker.transfer.kept.kept_metrics import KEPT_BLOCKS, LOST_BLOCKS, REFUSED_KEPT
from headrace.worker.transfer.kept.slot_file import SlotFile
from headrace.worker.transfer.kept.slot_header import HEADER_BYTES, SlotHeader

THREADS = 2
MAX_FILES = 64
"""Maximum number of workers of one model that share a folder."""
ENDING = ".kv"
CLOSE_SECONDS = 1.0
MAX_UNTOLD = 131_072
"""Maximum number of changes that wait for `tell`, the newest: a large file does not push all else out of the index."""

_log = logging.getLogger(__name__)


class KeptBlocks:
    """Keeps blocks, of which the least recently used give way. One that cannot be read whole, or is another than its
    name says, is a miss: nothing that happens to the file makes another block of it. Safe to share between threads."""

    def __init__(self, file: SlotFile, layout: str) -> None:
        self._file = file
        self._layout = layout.encode()
        self._lock = threading.Lock()
        self.threads = ThreadPoolExecutor(THREADS, "kept-blocks")
        """Threads that read and write. A disk that hangs holds these alone."""
        self._slots: OrderedDict[bytes, int] = OrderedDict(file.names())
        taken = set(self._slots.values())
        self._free = [slot for slot in range(file.slot_count) if slot not in taken]
        self._changes = deque(((name, True) for name in self._slots), MAX_UNTOLD)
        """Blocks that came (True) and went since the last `tell`. Not under the lock: a disk that hangs holds it."""
        self._on_change: Callable[[BlockEvents], None] = lambda _events: None
        KEPT_BLOCKS.set(len(self._slots))

    @classmethod
    def open(cls, folder: Path, layout: str, block_bytes: int, max_bytes: int) -> Self | None:
        """Opens the first file of this layout in a folder that no other worker has, and makes room for it: files of
        other layouts that no worker has are deleted. None, with a warning, where that is not possible."""
        slot_count = max_bytes // (HEADER_BYTES + block_bytes)
        if slot_count < 1:
            _log.warning("no KV block fits kv_folder_bytes", extra={"block_bytes": block_bytes})
            return None
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            close_all_to_others(folder)
            _delete_others(folder, layout)
            for number in range(MAX_FILES):
                file = SlotFile.open(folder / f"{layout}-{number}{ENDING}", block_bytes, slot_count)
                if file is not None:
                    return cls(file, layout)
        except OSError as error:
            _log.warning("KV blocks are not kept", extra={"folder": str(folder), "reason": str(error)})
            return None
        _log.warning("KV blocks are not kept: too many workers share the folder", extra={"folder": str(folder)})
        return None

    def __contains__(self, name: bytes) -> bool:
        return name in self._slots

    def __len__(self) -> int:
        return len(self._slots)

    def listen(self, on_change: Callable[[BlockEvents], None]) -> None:
        """Registers `on_change`, which is called with the blocks that came and went, by their `kept_name`: at once with
        all blocks of the file, later by `tell`."""
        self._on_change = on_change
        self.tell()

    def tell(self) -> None:
        """Tells the listener what changed, if anything did. For one thread."""
        is_here: dict[bytes, bool] = {}
        while self._changes:
            name, came = self._changes.popleft()
            is_here[kept_name(name)] = came
        if is_here:
            came_and_went = [tuple(name for name in is_here if is_here[name] is kind) for kind in (True, False)]
            self._on_change(BlockEvents(*came_and_went))

    def put(self, name: bytes, content: bytes) -> None:
        """Keeps a block, in the place of the one that was used least recently. A failure of the disk loses it."""
        with self._lock:
            if name in self._slots:
                self._slots.move_to_end(name)
                return
            slot = self._free.pop() if self._free else self._give_way()
            try:
                self._file.write(slot, SlotHeader.of(name, content, self._layout), content)
            except OSError as error:
                self._free.append(slot)
                LOST_BLOCKS.inc()
                _log.warning("a KV block was not kept", extra={"reason": str(error)})
            else:
                self._slots[name] = slot
                self._changes.append((name, True))
            KEPT_BLOCKS.set(len(self._slots))

    def get(self, names: Sequence[bytes]) -> list[bytes]:
        """Reads the blocks at the beginning of `names` that are here and intact. One that is damaged is forgotten."""
        found: list[bytes] = []
        for name in names:
            with self._lock:
                content = self._read(name)
            if content is None:
                break
            found.append(content)
        return found

    def close(self) -> None:
        """Closes the file. Its blocks are there again when it is opened."""
        self.threads.shutdown(wait=False, cancel_futures=True)
        if not self._lock.acquire(timeout=CLOSE_SECONDS):
            _log.warning("the file of KV blocks is in use, and stays open until the process ends")
            return
        try:
            self._slots.clear()
            self._free.clear()
            self._file.close()
        finally:
            self._lock.release()

    def _give_way(self) -> int:
        """Forgets the block that was used least recently. Returns its slot."""
        name, slot = self._slots.popitem(last=False)
        self._changes.append((name, False))
        return slot

    def _read(self, name: bytes) -> bytes | None:
        slot = self._slots.get(name)
        if slot is None:
            return None
        try:
            header, content = self._file.read(slot)
        except OSError as error:
            self._refuse(name, slot, "unreadable", str(error))
            return None
        if header is None or not header.fits(name, content, self._layout):
            self._refuse(name, slot, "damaged", "the checksum does not fit")
            return None
        self._slots.move_to_end(name)
        return content

    def _refuse(self, name: bytes, slot: int, kind: str, reason: str) -> None:
        del self._slots[name]
        self._free.append(slot)
        self._changes.append((name, False))
        REFUSED_KEPT.labels(reason=kind).inc()
        KEPT_BLOCKS.set(len(self._slots))
        _log.warning("a kept KV block is refused, and computed again", extra={"reason": reason})


def _delete_others(folder: Path, layout: str) -> None:
    """Deletes files of other layouts: nothing can use them, unless a worker has them open."""
    for path in folder.glob(f"*{ENDING}"):
        if not path.name.startswith(f"{layout}-"):
            SlotFile.delete(path)
