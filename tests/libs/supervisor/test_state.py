"""A state folder has one platform at a time, and says which."""

import json
import os
import time
from pathlib import Path

import pytest

from headrace.errors import ConfigError, NotFound
from headrace.supervisor.state import (
    LOCK_FILE,
    PLATFORM_FILE,
    StateFolder,
    holder_of,
    is_held,
    last_platform,
    read_platform,
)
from headrace.supervisor.system.process_identity import ProcessIdentity


def test_the_holder_is_known_while_it_holds(tmp_path: Path) -> None:
    assert holder_of(tmp_path) is None
    with StateFolder(tmp_path) as state:
        assert holder_of(tmp_path) == ProcessIdentity.of(os.getpid())
        with pytest.raises(NotFound, match="just starting"):
            read_platform(tmp_path)
        state.write({"pid": os.getpid()})
        assert read_platform(tmp_path) == {"pid": os.getpid()}
    assert holder_of(tmp_path) is None
    assert not is_held(tmp_path)
    with pytest.raises(NotFound, match="no platform runs"):
        read_platform(tmp_path)


def test_a_second_platform_learns_whom_to_stop(tmp_path: Path) -> None:
    with StateFolder(tmp_path):
        refused = pytest.raises(
            ConfigError, match=rf"already runs .*pid {os.getpid()}.*headrace stop --state-dir {tmp_path}"
        )
        with refused, StateFolder(tmp_path):
            pass


def test_what_a_killed_platform_left_is_no_platform(tmp_path: Path) -> None:
    with StateFolder(tmp_path):
        pass
    (tmp_path / LOCK_FILE).write_text(json.dumps({"pid": os.getpid(), "birth": "1"}))
    (tmp_path / PLATFORM_FILE).write_text('{"pid": 4711}')
    assert holder_of(tmp_path) is None
    assert last_platform(tmp_path) == {"pid": 4711}
    with StateFolder(tmp_path):
        assert last_platform(tmp_path) == {}


def test_the_holder_of_a_former_release_is_known_by_its_description(tmp_path: Path) -> None:
    """It locks without a signature. A younger process with its pid is another one."""
    with StateFolder(tmp_path) as state:
        (tmp_path / LOCK_FILE).write_text("")
        state.write({"pid": os.getpid(), "started": time.time(), "services": []})
        assert holder_of(tmp_path) == ProcessIdentity.of(os.getpid())
        assert read_platform(tmp_path)["pid"] == os.getpid()
        state.write({"pid": os.getpid(), "started": 1.0, "services": []})
        with pytest.raises(NotFound, match="just starting"):
            holder_of(tmp_path)


def test_a_lock_that_is_not_signed_yet_is_of_a_start(tmp_path: Path) -> None:
    with StateFolder(tmp_path):
        (tmp_path / LOCK_FILE).write_text("")
        assert is_held(tmp_path)
        with pytest.raises(NotFound, match="just starting"):
            holder_of(tmp_path)
