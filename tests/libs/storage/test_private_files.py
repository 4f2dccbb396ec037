"""Files of the platform are closed to other users, those of earlier versions too."""

import os
import stat
from pathlib import Path

import pytest

from headrace.storage.private_files import OTHERS, close_all_to_others, close_to_others, keep_files_private
from headrace.supervisor.state import StateFolder


@pytest.fixture(autouse=True)
def _usual_umask() -> object:
    before = os.umask(0o022)
    yield
    os.umask(before)


def open_paths(folder: Path) -> list[str]:
    return [str(path) for path in (folder, *folder.rglob("*")) if path.lstat().st_mode & OTHERS]


def test_files_are_made_private(tmp_path: Path) -> None:
    keep_files_private()
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "c").write_text("x")
    assert open_paths(tmp_path / "a") == []


def test_an_old_folder_is_closed_with_all_in_it(tmp_path: Path) -> None:
    folder = tmp_path / "old"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "data.mdb").write_text("x")
    close_all_to_others(folder)
    assert open_paths(folder) == []
    assert (folder / "sub" / "data.mdb").read_text() == "x"


def test_links_and_shared_folders_are_left_alone(tmp_path: Path) -> None:
    outside, shared = tmp_path / "outside", tmp_path / "shared"
    outside.write_text("x")
    shared.mkdir()
    shared.chmod(0o1777)
    (tmp_path / "link").symlink_to(outside)
    before = outside.stat().st_mode
    close_to_others(tmp_path / "link")
    close_to_others(shared)
    assert outside.stat().st_mode == before
    assert stat.S_IMODE(shared.stat().st_mode) == 0o1777


def test_the_state_folder_of_an_earlier_version_is_closed(tmp_path: Path) -> None:
    for name in ("logs", "nats", "cache"):
        (tmp_path / "state" / name).mkdir(parents=True)
    (tmp_path / "state" / "cache" / "data.mdb").write_text("x")
    with StateFolder(tmp_path / "state"):
        assert open_paths(tmp_path / "state") == []


def test_a_folder_of_other_things_stays_open(tmp_path: Path) -> None:
    folder = tmp_path / "home"
    folder.mkdir()
    with StateFolder(folder):
        assert folder.stat().st_mode & OTHERS
        assert open_paths(folder / "logs") == []
