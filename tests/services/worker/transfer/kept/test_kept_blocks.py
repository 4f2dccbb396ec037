"""Blocks on a disk: what comes back is what was put there under that name, or nothing, whatever happens to the file."""

import errno
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.engine.contract.request import BlockEvents
from headrace.kv.kept_name import kept_name
from headrace.worker.transfer.kept.kept_blocks import KeptBlocks
from headrace.worker.transfer.kept.slot_header import HEADER_BYTES

LAYOUT = "0123456789abcdef"
SIZE = 96
SLOT = HEADER_BYTES + SIZE
SLOTS = 16
FAULTS = int(os.environ.get("HEADRACE_KV_FAULTS", "24000"))


def content_of(number: int) -> bytes:
    return random.Random(number).randbytes(SIZE)


def name_of(number: int) -> bytes:
    return number.to_bytes(16, "little")


def open_kept(folder: Path, layout: str = LAYOUT, slots: int = SLOTS) -> KeptBlocks:
    kept = KeptBlocks.open(folder, layout, SIZE, slots * SLOT)
    assert kept is not None
    return kept


def file_in(folder: Path) -> Path:
    (path,) = folder.iterdir()
    return path


def test_blocks_outlive_the_process_and_the_oldest_give_way(tmp_path: Path) -> None:
    kept = open_kept(tmp_path)
    for number in range(SLOTS):
        kept.put(name_of(number), content_of(number))
    assert kept.get([name_of(0)]) == [content_of(0)]
    kept.put(name_of(99), content_of(99))
    assert name_of(0) in kept
    assert name_of(1) not in kept
    kept.close()
    again = open_kept(tmp_path)
    assert len(again) == SLOTS
    assert again.get([name_of(0), name_of(99), name_of(1), name_of(2)]) == [content_of(0), content_of(99)]
    again.close()


def test_a_listener_hears_of_what_is_there_and_of_every_change(tmp_path: Path) -> None:
    heard: dict[bytes, bool] = {}

    def hear(events: BlockEvents) -> None:
        assert not set(events.stored) & set(events.removed)
        heard.update(dict.fromkeys(events.removed, False) | dict.fromkeys(events.stored, True))

    def there() -> set[bytes]:
        return {name for name, is_here in heard.items() if is_here}

    kept = open_kept(tmp_path)
    for number in range(SLOTS):
        kept.put(name_of(number), content_of(number))
    kept.close()
    kept = open_kept(tmp_path)
    kept.listen(hear)
    assert there() == {kept_name(name_of(number)) for number in range(SLOTS)}
    for number in range(SLOTS, 2 * SLOTS):
        kept.put(name_of(number), content_of(number))
        kept.tell()
    assert there() == {kept_name(name_of(number)) for number in range(SLOTS, 2 * SLOTS)}
    kept.put(name_of(0), content_of(0))
    for number in range(SLOTS, 2 * SLOTS):
        kept.put(name_of(number), content_of(number))
    kept.tell()
    assert there() == {kept_name(name_of(number)) for number in range(SLOTS, 2 * SLOTS)}
    kept.close()


def test_a_listener_hears_of_a_block_that_is_damaged(tmp_path: Path) -> None:
    heard: list[BlockEvents] = []
    kept = open_kept(tmp_path)
    kept.put(name_of(1), content_of(1))
    kept.listen(heard.append)
    data = bytearray(file_in(tmp_path).read_bytes())
    data[-1] ^= 1
    file_in(tmp_path).write_bytes(data)
    assert kept.get([name_of(1)]) == []
    kept.tell()
    assert heard == [BlockEvents((kept_name(name_of(1)),)), BlockEvents((), (kept_name(name_of(1)),))]
    kept.close()


def test_files_and_folder_are_the_users_alone(tmp_path: Path) -> None:
    kept = open_kept(tmp_path / "kv")
    assert (tmp_path / "kv").stat().st_mode & 0o777 == 0o700
    assert file_in(tmp_path / "kv").stat().st_mode & 0o777 == 0o600
    assert file_in(tmp_path / "kv").stat().st_size == SLOTS * SLOT
    kept.close()


def test_two_workers_have_a_file_each_and_another_layout_deletes_what_nobody_has(tmp_path: Path) -> None:
    first, second = open_kept(tmp_path), open_kept(tmp_path)
    assert len(list(tmp_path.iterdir())) == 2
    second.close()
    other = open_kept(tmp_path, "f" * 16)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{LAYOUT}-0.kv", f"{'f' * 16}-0.kv"]
    first.close()
    other.close()


def flip(path: Path, dice: random.Random) -> None:
    with path.open("r+b") as file:
        at = dice.randrange(SLOTS * SLOT)
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1 << dice.randrange(8)]))


def tear(path: Path, dice: random.Random) -> None:
    """A part of a block is that of another moment."""
    with path.open("r+b") as file:
        slot = dice.randrange(SLOTS)
        file.seek(slot * SLOT + HEADER_BYTES + dice.randrange(SIZE))
        file.write(dice.randbytes(7))


def swap(path: Path, dice: random.Random) -> None:
    """The whole slot of another block, or its content under this one's header."""
    with path.open("r+b") as file:
        source, target, begin = dice.randrange(SLOTS), dice.randrange(SLOTS), dice.choice((0, HEADER_BYTES))
        file.seek(source * SLOT + begin)
        data = file.read(SLOT - begin)
        file.seek(target * SLOT + begin)
        file.write(data)


def cut(path: Path, dice: random.Random) -> None:
    os.truncate(path, dice.randrange(SLOTS * SLOT))
    os.truncate(path, SLOTS * SLOT)


def empty(path: Path, dice: random.Random) -> None:
    os.truncate(path, 0)
    os.truncate(path, SLOTS * SLOT)


def go_back(path: Path, dice: random.Random) -> None:
    """A slot, or the half of it, is that of an earlier moment: a write that the disk had confirmed is lost."""
    earlier, slot = path.with_suffix(".earlier"), dice.randrange(SLOTS)
    if not earlier.exists() or dice.random() < 0.02:
        earlier.write_bytes(path.read_bytes())
    length = dice.choice((HEADER_BYTES, SLOT // 2, SLOT))
    with path.open("r+b") as file:
        file.seek(slot * SLOT)
        file.write(earlier.read_bytes()[slot * SLOT :][:length])


@pytest.mark.parametrize("fault", [flip, tear, swap, cut, empty, go_back])
def test_no_fault_makes_another_block(
    fault: Callable[[Path, random.Random], None], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("CRITICAL")
    dice, kept = random.Random(7), open_kept(tmp_path)
    path, misses = file_in(tmp_path), 0
    for step in range(FAULTS // 6):
        number = dice.randrange(2 * SLOTS)
        kept.put(name_of(number), content_of(number))
        fault(path, dice)
        asked = [name_of(dice.randrange(2 * SLOTS)) for _ in range(2)]
        for name, content in zip(asked, kept.get(asked), strict=False):
            assert content == content_of(int.from_bytes(name, "little"))
        if step % 500 == 499:
            kept.close()
            kept = open_kept(tmp_path)
        misses += name_of(number) not in kept
    assert misses or fault in (flip, tear, go_back)
    kept.close()


def test_a_block_of_another_layout_is_none(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    kept = open_kept(tmp_path)
    kept.put(name_of(1), content_of(1))
    kept.close()
    file_in(tmp_path).rename(tmp_path / f"{'e' * 16}-0.kv")
    other = open_kept(tmp_path, "e" * 16)
    assert other.get([name_of(1)]) == []
    assert "a kept KV block is refused, and computed again" in caplog.messages
    other.close()


def test_a_planted_fault_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the check, a swap gives another's block: the test above would see it."""
    monkeypatch.setattr("headrace.worker.transfer.kept.slot_header.SlotHeader.fits", lambda *_: True)
    kept = open_kept(tmp_path)
    for number in (1, 2):
        kept.put(name_of(number), content_of(number))
    swapped = 0
    dice = random.Random(1)
    for _ in range(2000):
        swap(file_in(tmp_path), dice)
        swapped += kept.get([name_of(1)]) != [content_of(1)]
    assert swapped
    kept.close()


def test_a_disk_that_fails_is_a_miss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = open_kept(tmp_path)
    kept.put(name_of(1), content_of(1))

    def fail(*_: object) -> bytes:
        raise OSError(errno.EIO, "dead")

    monkeypatch.setattr(os, "pread", fail)
    assert kept.get([name_of(1)]) == []
    monkeypatch.undo()
    monkeypatch.setattr(os, "pwrite", fail)
    kept.put(name_of(2), content_of(2))
    assert name_of(2) not in kept
    monkeypatch.undo()
    kept.put(name_of(2), content_of(2))
    assert kept.get([name_of(2)]) == [content_of(2)]
    kept.close()


def test_a_full_disk_at_the_start_leaves_the_worker_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    assert KeptBlocks.open(tmp_path, LAYOUT, SIZE, SLOTS * SLOT) is None
    assert "KV blocks are not kept" in caplog.messages
    assert KeptBlocks.open(tmp_path, LAYOUT, SIZE, 10) is None
