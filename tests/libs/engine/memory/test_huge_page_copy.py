"""Weights that move while they are in use."""

import ctypes
import os
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from headrace.engine.memory import huge_page_copy
from headrace.engine.memory.aligned import Bytes, address
from headrace.engine.memory.huge_page_copy import HugePageCopy, Move
from headrace.engine.memory.mapped_file import MappedFile

SIZES = (3 << 20, 100, 5 << 20)


@pytest.fixture
def sources(tmp_path: Path) -> tuple[MappedFile, list[Bytes]]:
    path = tmp_path / "weights"
    path.write_bytes(np.random.default_rng(0).bytes(sum(SIZES)))
    with path.open("rb") as file:
        mapped = MappedFile(file)
    ends = np.cumsum(SIZES).tolist()
    return mapped, [mapped.bytes[end - size : end] for size, end in zip(SIZES, ends, strict=True)]


def test_all_weights_move_and_stay_the_same(sources: tuple[MappedFile, list[Bytes]]) -> None:
    mapped, parts = sources
    moved: list[int] = []
    copy = HugePageCopy(mapped, [Move(part, moved.append) for part in parts])
    assert copy.wait(60)
    assert len(moved) == len(parts)
    for part, place in zip(parts, moved, strict=True):
        assert place != address(part)
        assert ctypes.string_at(place, part.nbytes) == part.tobytes()


@pytest.mark.skipif(sys.platform != "linux", reason="threads have no priority of their own; to run it: Linux")
def test_it_gives_way_to_the_kernels(sources: tuple[MappedFile, list[Bytes]]) -> None:
    mapped, parts = sources
    priorities: list[int] = []

    def note(_place: int) -> None:
        priorities.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))

    own = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    assert HugePageCopy(mapped, [Move(part, note) for part in parts]).wait(60)
    assert set(priorities) == {huge_page_copy.LOWEST_PRIORITY}
    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == own


def test_without_room_weights_stay_where_they_are(
    sources: tuple[MappedFile, list[Bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    mapped, parts = sources
    monkeypatch.setattr(huge_page_copy, "available_bytes", lambda: sum(SIZES))
    moved: list[int] = []
    assert HugePageCopy(mapped, [Move(part, moved.append) for part in parts]).wait(60)
    assert not moved
