"""A failpoint does what its file says while the file is there, and nothing in a process that was given no folder."""

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace import failpoints
from headrace.failpoints.failpoint import FailpointReached


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    failpoints.arm(tmp_path)
    yield tmp_path
    failpoints.arm(None)


def test_a_point_is_off_without_a_file_and_without_a_folder(folder: Path) -> None:
    failpoints.hit("point")
    (folder / "point").write_text("raise")
    failpoints.arm(None)
    failpoints.hit("point")
    assert failpoints.fate("point", "message") == ("message",)
    assert failpoints.damage("point", b"value") == b"value"


def test_it_raises_for_as_long_as_the_file_is_there(folder: Path) -> None:
    (folder / "point").write_text("raise")
    for _ in range(2):
        with pytest.raises(FailpointReached, match="point"):
            failpoints.hit("point")
    failpoints.hit("another")
    (folder / "point").unlink()
    failpoints.hit("point")


def test_once_is_taken_by_the_first_that_comes_by(folder: Path) -> None:
    (folder / "point").write_text("once memory")
    with pytest.raises(MemoryError):
        failpoints.hit("point")
    failpoints.hit("point")


def test_a_full_disk_looks_like_one(folder: Path) -> None:
    (folder / "point").write_text("disk_full")
    with pytest.raises(OSError, match="No space left") as caught:
        failpoints.hit("point")
    assert caught.value.errno == errno.ENOSPC


@pytest.mark.anyio
async def test_a_pause_can_raise_as_well(folder: Path) -> None:
    (folder / "point").write_text("once sleep 0.001")
    await failpoints.pause("point")
    (folder / "point").write_text("raise")
    with pytest.raises(FailpointReached):
        await failpoints.pause("point")


def test_an_action_that_does_not_exist_is_refused(folder: Path) -> None:
    (folder / "point").write_text("explode")
    with pytest.raises(ValueError, match="explode"):
        failpoints.hit("point")


def test_messages_are_dropped_doubled_and_swapped(folder: Path) -> None:
    def sent(action: str, *messages: str) -> list[str]:
        (folder / "point").write_text(action)
        return [later for message in messages for later in failpoints.fate("point", message)]

    assert sent("drop", "a", "b") == []
    assert sent("twice", "a", "b") == ["a", "a", "b", "b"]
    assert sent("swap", "a", "b", "c", "d") == ["b", "a", "d", "c"]
    assert sent("swap", "e") == []
    assert sent("", "f") == ["f", "e"], "what was held back is lost"


def test_a_damaged_value_is_as_long_and_another(folder: Path) -> None:
    (folder / "point").write_text("damage")
    damaged = failpoints.damage("point", b"value")
    assert len(damaged) == 5
    assert damaged != b"value"
