"""The NATS server of a local platform: asking it whether it is ready, for hours on end, costs no memory."""

import asyncio
import json
from pathlib import Path

import httpx2
import pytest

from headrace.security.nats_conf import REMEMBERED_CLIENTS
from headrace.supervisor.nats_server import LocalNats

pytestmark = [pytest.mark.anyio, pytest.mark.process]
SECONDS = 20.0


async def test_the_server_forgets_connections_that_were_closed(tmp_path: Path) -> None:
    nats = LocalNats(tmp_path, token="a-token")
    command = [*nats.command(-1), "--http_port", "-1"]
    quiet = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(*command, env=dict(nats.environment), stdout=quiet, stderr=quiet)
    try:
        async with asyncio.timeout(SECONDS):
            while not await nats.is_ready():  # noqa: ASYNC110 - it is another process's event
                await asyncio.sleep(0.01)
            for _ in range(REMEMBERED_CLIENTS + 50):
                assert await nats.is_ready()
            assert len(await _closed(tmp_path)) == REMEMBERED_CLIENTS
    finally:
        process.kill()
        await process.wait()


async def _closed(folder: Path) -> list[object]:
    """Closed connections that the server lists, which it counts a moment after they are closed."""
    ports = json.loads(next((folder / "ports").glob("*.ports")).read_text())
    async with httpx2.AsyncClient(timeout=SECONDS) as client:
        while True:
            answer = await client.get(f"{ports['monitoring'][0]}/connz", params={"state": "closed", "limit": 2000})
            connections: list[object] = answer.json()["connections"]
            if len(connections) >= REMEMBERED_CLIENTS:
                return connections
            await asyncio.sleep(0.05)
