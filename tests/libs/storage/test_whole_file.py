"""Files are there whole or not at all."""

import os
import stat
from pathlib import Path

import pytest

from headrace.storage.whole_file import SHARED, drafted, write_whole


def test_a_file_is_made_and_replaced_and_only_its_user_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_whole(path, "é")
    write_whole(path, b"\xff", durable=False)
    assert path.read_bytes() == b"\xff"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_shared_file_has_the_permissions_that_the_process_gives(tmp_path: Path) -> None:
    write_whole(tmp_path / "a", "", mode=SHARED)
    (tmp_path / "b").touch()
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes["a"] == modes["b"]


@pytest.mark.parametrize("durable", [True, False])
def test_a_block_that_fails_leaves_the_old_content_and_nothing_else(tmp_path: Path, durable: bool) -> None:
    path = tmp_path / "a"
    path.write_text("old")

    def fail_half_way() -> None:
        with drafted(path, durable=durable) as file:
            file.write(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_half_way()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_reader_sees_the_old_content_until_all_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, seen = tmp_path / "a", []
    path.write_text("old")
    flush = os.fsync

    def fsync(descriptor: int) -> None:
        seen.append(path.read_text())
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    write_whole(path, "new")
    assert seen == ["old", "new"], "the content is flushed before the file has its name, its folder afterwards"
