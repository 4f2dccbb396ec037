"""Several caches share KV blocks through a server, whose absence is a miss."""

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.harness.free_ports import free_ports
from tests.services.cache.shared_kv.test_lmdb_blocks import keys, records
from tests.unpacked_packages import REDIS, unpacked, why_not

from headrace.cache.shared_kv.opened_blocks import opened_blocks
from headrace.errors import ConfigError

pytest.importorskip("redis", reason="the client of Valkey is not installed; to run it: make test")

from headrace.cache.shared_kv import valkey_blocks
from headrace.cache.shared_kv.valkey_blocks import ValkeyBlocks

pytestmark = pytest.mark.anyio
SECONDS = 20.0
SERVER = unpacked(REDIS)
needs_server = pytest.mark.skipif(
    not SERVER.exists(), reason=f"no redis-server: {why_not(REDIS)}; to run it: make test"
)


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[ValkeyBlocks]:
    blocks = ValkeyBlocks(url)
    yield blocks
    await blocks.close()


class Server:
    """A server that forgets the least recently used beyond 8 MB."""

    def __init__(self, folder: Path) -> None:
        self.port = free_ports(1)[0]
        self.url = f"valkey://127.0.0.1:{self.port}"
        libraries = ":".join(str(path) for path in (SERVER / "lib").glob("*-linux-gnu"))
        command = [str(SERVER / "bin" / "redis-server"), "--port", str(self.port), "--bind", "127.0.0.1"]
        command += ["--save", "", "--maxmemory", "8mb", "--maxmemory-policy", "allkeys-lru", "--dir", str(folder)]
        environment = os.environ | {"LD_LIBRARY_PATH": libraries}
        quiet = subprocess.DEVNULL
        self.process = subprocess.Popen(command, env=environment, stdout=quiet, stderr=quiet)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path)
    yield made
    made.process.kill()
    made.process.wait()


async def until_there(blocks: ValkeyBlocks) -> None:
    """Waits until the server answers."""
    deadline = time.monotonic() + SECONDS
    while not await blocks.write(records([0]), 0.0):
        assert time.monotonic() < deadline
        blocks._resting_until = 0.0
        await asyncio.sleep(0.02)


@needs_server
@pytest.mark.process
async def test_what_one_cache_stores_another_has(server: Server) -> None:
    async with opened(server.url) as first, opened(server.url.replace("valkey", "redis")) as second:
        await until_there(first)
        assert await first.write(records(range(3)), 0.1) == 3
        assert await second.held(keys([0, 1, 9, 2])) == 2
        assert await second.wanted(keys(range(4))) == keys([3])
        assert await second.read(keys([0, 1, 9, 2])) == [record for _, record in records(range(2))]
        assert await second.read(keys([9, 0])) == []
        assert await second.held(keys(range(3), "f" * 16)) == 0


@needs_server
@pytest.mark.process
async def test_the_server_bounds_its_memory_and_a_run_comes_in_packets(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(server.url) as blocks:
        await until_there(blocks)
        for first in range(0, 400, 40):
            assert await blocks.write(records(range(first, first + 40)), 0.0) == 40
        assert len(await blocks.wanted(keys(range(400)))) > 20
        monkeypatch.setattr(valkey_blocks, "PACKET_BYTES", 50_000)
        await blocks.read(keys([399]))
        assert len(await blocks.read(keys(range(395, 400)))) == 2


@needs_server
@pytest.mark.process
async def test_a_server_that_hangs_or_dies_is_a_miss(server: Server) -> None:
    async with opened(server.url) as blocks:
        await until_there(blocks)
        server.process.send_signal(signal.SIGSTOP)
        started = time.monotonic()
        assert await blocks.held(keys([0])) == 0
        assert await blocks.read(keys([0])) == []
        assert time.monotonic() - started < 2.0
        server.process.send_signal(signal.SIGCONT)
        blocks._resting_until = 0.0
        assert await blocks.held(keys([0])) == 1
        server.process.kill()
        server.process.wait()
        assert await blocks.read(keys([0])) == []
        assert await blocks.write(records([1]), 0.0) == 0


async def test_without_a_server_all_is_missing_and_none_is_wanted() -> None:
    async with opened(f"redis://127.0.0.1:{free_ports(1)[0]}") as blocks:
        assert await blocks.held(keys([1])) == 0
        assert await blocks.wanted(keys([1])) == []
        assert await blocks.write(records([1]), 0.0) == 0
        assert await blocks.read(keys([1])) == []


async def test_an_address_takes_the_place_of_the_folder_and_another_kind_is_refused(tmp_path: Path) -> None:
    async with opened_blocks(tmp_path, 1 << 20, "valkey://127.0.0.1:1") as blocks:
        assert isinstance(blocks, ValkeyBlocks)
    assert not (tmp_path / "kv").exists()
    with pytest.raises(ConfigError, match="no address of a store"):
        async with opened_blocks(tmp_path, 0, "http://127.0.0.1:1"):
            pass
