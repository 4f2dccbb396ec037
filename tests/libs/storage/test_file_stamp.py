"""A file that was replaced has another stamp, and one that is not there has none."""

from pathlib import Path

from headrace.storage.file_stamp import FileStamp
from headrace.storage.whole_file import write_whole


def test_each_version_has_its_own(tmp_path: Path) -> None:
    path = tmp_path / "file"
    assert FileStamp.of(path) is None
    write_whole(path, "one")
    first = FileStamp.of(path)
    assert first == FileStamp.of(path)
    write_whole(path, "two")
    assert FileStamp.of(path) not in (None, first)
