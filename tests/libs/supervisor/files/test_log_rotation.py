"""A log is bounded, and the process that writes it notices nothing."""

from pathlib import Path

from headrace.supervisor.files.log_rotation import old_log, rotate


def test_a_large_log_is_set_aside_while_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "worker-0.log"
    with path.open("ab", buffering=0) as writer:
        writer.write(b"x" * 100)
        assert not rotate(path, max_bytes=100)
        writer.write(b"first\n")
        assert rotate(path, max_bytes=100)
        writer.write(b"second\n")
    assert path.read_bytes() == b"second\n"
    assert old_log(path).read_bytes() == b"x" * 100 + b"first\n"


def test_only_one_old_log_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "worker-0.log"
    for text in ("one", "two", "three"):
        path.write_text(text)
        assert rotate(path, max_bytes=1)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["worker-0.log", "worker-0.log.1"]
    assert old_log(path).read_text() == "three"


def test_a_log_that_is_not_there_is_no_error(tmp_path: Path) -> None:
    assert not rotate(tmp_path / "none.log")
