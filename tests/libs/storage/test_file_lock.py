"""One process at a time changes a file, and none waits forever."""

from pathlib import Path

import pytest

from headrace.storage import file_lock
from headrace.storage.file_lock import locked


def test_one_that_is_held_is_waited_for_and_then_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_lock, "LOCK_SECONDS", 0.05)
    path = tmp_path / "folder" / "file"
    with (
        locked(path),
        pytest.raises(TimeoutError, match="another process has held it"),
        locked(path),
    ):
        raise AssertionError
    with locked(path):
        assert not path.exists()


def test_a_block_that_fails_gives_the_lock_back(tmp_path: Path) -> None:
    with pytest.raises(KeyError), locked(tmp_path / "file"):
        raise KeyError
    with locked(tmp_path / "file"):
        pass
