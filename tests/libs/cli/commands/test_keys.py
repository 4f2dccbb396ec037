"""Commands about keys say what to do where there are none yet."""

from pathlib import Path

import pytest
from tests.e2e.command_line import headrace_here


@pytest.mark.parametrize("command", [("list",), ("revoke", "abc"), ("rotate", "abc")])
def test_without_any_key_they_say_how_to_make_one(tmp_path: Path, command: tuple[str, ...]) -> None:
    state, file = tmp_path / "state", tmp_path / "keys.json"
    for place in (("--state-dir", str(state)), ("--file", str(file))):
        done = headrace_here("keys", *command, *place)
        assert done.returncode == 1
        told = " ".join(done.stderr.split())
        assert told == f"error: there are no keys yet: headrace keys create NAME {' '.join(place)}"
