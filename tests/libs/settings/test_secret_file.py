"""A secret in a file: white space around it is no part of it, and what cannot be one stops the start."""

from pathlib import Path

import pytest

from headrace.errors import ConfigError
from headrace.settings.secret_file import read_secret


def test_the_end_of_the_line_is_no_part_of_it(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hr-1234\n")
    assert read_secret(tmp_path / "secret", "credential_file") == "hr-1234"


@pytest.mark.parametrize("content", [b"", b" \n", b"two words", b"two\nlines", "schl\u00fcssel".encode(), b"\xff\xfe"])
def test_what_no_header_can_carry_is_refused(tmp_path: Path, content: bytes) -> None:
    """The error names the setting and the file, and does not show what is in it."""
    path = tmp_path / "secret"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match="credential_file") as caught:
        read_secret(path, "credential_file")
    assert str(path) in caught.value.message
    assert "two" not in caught.value.message


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"credential_file: cannot read .*absent: No such file"):
        read_secret(tmp_path / "absent", "credential_file")
