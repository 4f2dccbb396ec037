"""The proxy passes bytes on as they are, and does to them what it is told, in one direction or both."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import pytest
from tests.harness.connection import Link
from tests.harness.tcp_proxy import TcpProxy

pytestmark = pytest.mark.anyio
PATIENCE = 10.0
"""Far more than anything here takes."""
LITTLE = 0.2
"""Long enough for bytes that are not held back to have come."""


class Echo:
    """A server that sends everything back, and knows how its connections ended."""

    def __init__(self) -> None:
        self.ended: list[str] = []
        self.all_ended = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1000):
                writer.write(data)
                await writer.drain()
            self.ended.append("closed")
        except OSError:
            self.ended.append("reset")
        self.all_ended.set()
        writer.close()


class Bench:
    """An echo server behind a proxy, and a client in front of it."""

    def __init__(self, echo: Echo, link: Link, proxy: TcpProxy) -> None:
        self.echo, self.link, self.proxy = echo, link, proxy

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host, _, port = self.proxy.address.rpartition(":")
        return await asyncio.open_connection(host, int(port))


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    echo, link = Echo(), Link()
    server = await asyncio.start_server(echo.serve, "127.0.0.1", 0)
    proxy = TcpProxy(f"127.0.0.1:{server.sockets[0].getsockname()[1]}", lambda _ends: link)
    await proxy.start()
    yield Bench(echo, link, proxy)
    await proxy.close()
    server.close()


async def read(reader: asyncio.StreamReader, count: int) -> bytes:
    return await asyncio.wait_for(reader.readexactly(count), PATIENCE)


async def comes_nothing(reader: asyncio.StreamReader) -> bool:
    try:
        return not await asyncio.wait_for(reader.read(1), LITTLE)
    except TimeoutError:
        return True


async def test_bytes_pass_unchanged_and_in_order(bench: Bench) -> None:
    reader, writer = await bench.connect()
    bench.link.there.loss = 0.2
    content = bytes(range(256)) * 4000
    writer.write(content)
    assert await read(reader, len(content)) == content
    writer.close()
    await asyncio.wait_for(bench.echo.all_ended.wait(), PATIENCE)
    assert bench.echo.ended == ["closed"]


async def test_latency_delays_each_way(bench: Bench) -> None:
    reader, writer = await bench.connect()
    bench.link.there.latency = bench.link.back.latency = 0.1
    start = asyncio.get_running_loop().time()
    writer.write(b"x")
    assert await read(reader, 1) == b"x"
    assert asyncio.get_running_loop().time() - start >= 0.2
    writer.close()


@pytest.mark.parametrize("cut", [Link.partition, Link.cut_there, Link.cut_back])
async def test_what_is_cut_off_comes_when_it_heals(bench: Bench, cut: Callable[[Link], None]) -> None:
    reader, writer = await bench.connect()
    cut(bench.link)
    writer.write(b"held back")
    assert await comes_nothing(reader)
    bench.link.heal()
    assert await read(reader, 9) == b"held back"
    writer.close()


async def test_a_one_way_cut_lets_the_other_way_pass(bench: Bench) -> None:
    """The server hears the client, which does not hear the server."""
    reader, writer = await bench.connect()
    bench.link.cut_back()
    writer.write(b"x")
    writer.write_eof()
    await asyncio.wait_for(bench.echo.all_ended.wait(), PATIENCE)
    assert await comes_nothing(reader)
    writer.close()


async def test_a_new_connection_over_a_cut_link_hears_nothing_until_it_heals(bench: Bench) -> None:
    bench.link.partition()
    reader, writer = await bench.connect()
    writer.write(b"x")
    assert await comes_nothing(reader)
    bench.link.heal()
    assert await read(reader, 1) == b"x"
    writer.close()


async def test_a_reset_reaches_both_sides(bench: Bench) -> None:
    reader, writer = await bench.connect()
    writer.write(b"x")
    await read(reader, 1)
    bench.link.reset()
    with pytest.raises(ConnectionResetError):
        await asyncio.wait_for(reader.read(1), PATIENCE)
    await asyncio.wait_for(bench.echo.all_ended.wait(), PATIENCE)
    assert bench.echo.ended == ["reset"]
    writer.close()
    with contextlib.suppress(ConnectionResetError):
        await writer.wait_closed()
    assert bench.link.connections == set()


async def test_half_open_the_client_is_not_told(bench: Bench) -> None:
    reader, writer = await bench.connect()
    writer.write(b"x")
    await read(reader, 1)
    bench.link.half_open()
    await asyncio.wait_for(bench.echo.all_ended.wait(), PATIENCE)
    writer.write(b"into the void")
    await writer.drain()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reader.read(1), LITTLE)
    writer.close()


async def test_a_target_that_is_away_resets_the_client(bench: Bench) -> None:
    proxy = TcpProxy("127.0.0.1:1", lambda _ends: Link())
    await proxy.start()
    host, _, port = proxy.address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    with pytest.raises(ConnectionResetError):
        await asyncio.wait_for(reader.read(1), PATIENCE)
    writer.close()
    await proxy.close()
