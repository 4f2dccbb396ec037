"""A full disk has its own error, which clients and operators can tell from others."""

import asyncio
import contextlib
import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from headrace.errors import StorageFull
from headrace.errors.table import row_of
from headrace.gateway.batches.storage.disk import held_on_disk, on_disk
from headrace.gateway.batches.storage.free_space import FREE, MIN_BYTES, FreeSpace

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
async def test_a_full_disk_is_told(number: int) -> None:
    def fail() -> None:
        raise OSError(number, os.strerror(number))

    with pytest.raises(StorageFull, match="full") as raised:
        await on_disk(fail)
    assert row_of(raised.value).http_status == 507
    assert isinstance(raised.value, OSError)


async def test_other_failures_stay_what_they_are(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await on_disk((tmp_path / "absent").read_bytes)


async def test_what_opens_while_its_caller_is_cancelled_is_closed() -> None:
    opening, may_open = threading.Event(), threading.Event()
    steps: list[str] = []

    @contextlib.contextmanager
    def slow() -> Iterator[None]:
        opening.set()
        assert may_open.wait(10)
        steps.append("opened")
        try:
            yield
        finally:
            steps.append("closed")

    async def hold() -> None:
        async with held_on_disk(slow):
            steps.append("held")

    holding = asyncio.create_task(hold())
    await asyncio.to_thread(opening.wait, 10)
    holding.cancel()
    await asyncio.sleep(0)
    may_open.set()
    with pytest.raises(asyncio.CancelledError):
        await holding
    assert steps == ["opened", "closed"]


def test_the_space_that_is_left_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    space = FreeSpace(tmp_path)
    assert space.report() == "ready"
    assert FREE._value.get() > MIN_BYTES
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=0, f_frsize=4096))
    assert space.report() == "full: 0 bytes are free"
    assert FREE._value.get() == 0


def test_a_disk_that_is_away_is_told(tmp_path: Path) -> None:
    assert "No such file" in FreeSpace(tmp_path / "absent").report()
