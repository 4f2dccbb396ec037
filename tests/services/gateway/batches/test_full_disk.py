"""A disk without room for files and batches: requests are refused, `/ready` says so, and nothing half written stays."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest
from prometheus_client import CollectorRegistry

from headrace.gateway.access.gate import OPEN_GATE
from headrace.gateway.api.batches.batch_routes import BatchRoutes
from headrace.gateway.api.batches.file_routes import FileRoutes
from headrace.gateway.api.operation.monitoring import MonitoringRoutes
from headrace.gateway.batches.storage.shared_folder import open_folder
from headrace.gateway.config import GatewaySettings
from headrace.gateway.routes import Routes

pytestmark = pytest.mark.anyio
LINE = b'{"custom_id": "a", "method": "POST", "url": "/v1/completions", "body": {"model": "m", "prompt": "x"}}'
FILE_SYNCS, BATCH_SYNCS = 4, 5
"""Writes that reach the disk for a file and for a batch, each of which may find it full."""


class Disk:
    """A disk that becomes full after some writes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.room = 1_000_000
        """Writes that it has room for."""
        self._fsync: Callable[[int], None] = os.fsync
        monkeypatch.setattr(os, "fsync", self._sync)

    def _sync(self, descriptor: int) -> None:
        if self.room == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.room -= 1
        self._fsync(descriptor)


class Gateway:
    """Routes of files, batches and readiness, on a disk that may be full."""

    def __init__(self, folder: Path, disk: Disk) -> None:
        settings = GatewaySettings(files_folder=folder)
        self.disk = disk
        self._folder = folder
        shared = open_folder(settings)
        health: Any = SimpleNamespace(ready=True, report=lambda: {"status": "ready"})
        watching = MonitoringRoutes(health, OPEN_GATE, CollectorRegistry(), shared)
        self._app = Routes(settings, [FileRoutes(settings, shared), BatchRoutes(settings, shared), watching])

    async def send(self, method: str, path: str, **options: Any) -> httpx2.Response:
        transport = httpx2.ASGITransport(app=self._app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.request(method, path, **options)

    async def upload(self) -> httpx2.Response:
        fields, files = {"purpose": "batch"}, {"file": ("lines.jsonl", LINE)}
        return await self.send("POST", "/v1/files", data=fields, files=files)

    async def create(self, file_id: str) -> httpx2.Response:
        body = {"input_file_id": file_id, "endpoint": "/v1/completions", "completion_window": "24h"}
        return await self.send("POST", "/v1/batches", json=body)

    def stored(self) -> list[Path]:
        """Returns all files on the disk."""
        return sorted(path for path in self._folder.rglob("*") if path.is_file())


@pytest.fixture
def gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Gateway:
    return Gateway(tmp_path / "files", Disk(monkeypatch))


def check_refusal(answer: httpx2.Response) -> None:
    assert answer.status_code == 507, answer.text
    assert answer.json()["error"]["code"] == "storage_full"


@pytest.mark.parametrize("room", range(FILE_SYNCS))
async def test_a_file_that_finds_no_room_is_refused_and_leaves_nothing(gateway: Gateway, room: int) -> None:
    gateway.disk.room = room
    check_refusal(await gateway.upload())
    assert gateway.stored() == []
    gateway.disk.room = FILE_SYNCS
    assert (await gateway.upload()).status_code == 200
    assert gateway.disk.room == 0
    assert len((await gateway.send("GET", "/v1/files")).json()["data"]) == 1


@pytest.mark.parametrize("room", range(BATCH_SYNCS))
async def test_a_batch_that_finds_no_room_is_refused_and_leaves_nothing(gateway: Gateway, room: int) -> None:
    file_id = (await gateway.upload()).json()["id"]
    before = gateway.stored()
    gateway.disk.room = room
    check_refusal(await gateway.create(file_id))
    assert gateway.stored() == before
    assert (await gateway.send("GET", "/v1/batches")).json()["data"] == []
    gateway.disk.room = BATCH_SYNCS
    assert (await gateway.create(file_id)).status_code == 200
    assert gateway.disk.room == 0


async def test_readiness_tells_of_a_full_disk(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (await gateway.send("GET", "/ready")).json()["files"] == "ready"
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=0, f_frsize=4096))
    answer = await gateway.send("GET", "/ready")
    assert (answer.status_code, answer.json()["files"]) == (200, "full: 0 bytes are free")
