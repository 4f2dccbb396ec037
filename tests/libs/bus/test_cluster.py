"""A cluster of three NATS servers keeps the registry and leases while one of them is lost."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from nats.errors import Error
from tests.harness.free_ports import free_ports

from headrace.bus.bus import LEASES, REGISTRY, StoreAway
from headrace.bus.nats_bus import NatsBus
from headrace.supervisor.nats_server import find_nats_server
from headrace.v1.events_pb2 import ServiceRegistered

pytestmark = [pytest.mark.anyio, pytest.mark.process]
SIZE = 3
SECONDS = 60.0
"""Patience with elections beside other work."""


class Cluster:
    """Servers that know each other, each with a folder of its own."""

    def __init__(self, folder: Path, size: int = SIZE) -> None:
        self._folder = folder
        self._ports = free_ports(2 * size)
        self._servers: dict[int, asyncio.subprocess.Process] = {}

    def url(self, number: int) -> str:
        return f"nats://127.0.0.1:{self._ports[number]}"

    async def start(self, number: int) -> None:
        peers = self._ports[len(self._ports) // 2 :]
        config: dict[str, object] = {
            "server_name": f"nats-{number}",
            "listen": f"127.0.0.1:{self._ports[number]}",
            "jetstream": {"store_dir": str(self._folder / str(number))},
        }
        if len(peers) > 1:
            routes = [f"nats://127.0.0.1:{port}" for port in peers]
            config["cluster"] = {"name": "headrace", "listen": f"127.0.0.1:{peers[number]}", "routes": routes}
        path = self._folder / f"{number}.conf"
        path.write_text(json.dumps(config))
        quiet = asyncio.subprocess.DEVNULL
        command = (find_nats_server(), "--config", str(path))
        self._servers[number] = await asyncio.create_subprocess_exec(*command, stdout=quiet, stderr=quiet)

    async def kill(self, number: int) -> None:
        server = self._servers.pop(number)
        server.kill()
        await server.wait()

    async def close(self) -> None:
        await asyncio.gather(*map(self.kill, list(self._servers)))


async def until(attempt: Callable[[], Awaitable[bool]]) -> None:
    """Repeats what may fail during an election, until it holds."""
    deadline = time.monotonic() + SECONDS
    while True:
        with contextlib.suppress(StoreAway):
            if await attempt():
                return
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.05)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    servers = Cluster(tmp_path)
    for number in range(SIZE):
        await servers.start(number)
    yield servers
    await servers.close()


async def connect(url: str, replicas: int) -> NatsBus:
    bus = NatsBus(url, "test", replicas=replicas)
    bus.start()

    async def is_connected() -> bool:
        return bus.connected

    await until(is_connected)
    return bus


async def is_whole(bus: NatsBus) -> bool:
    """Whether every server has all of both buckets."""
    for store in (LEASES, REGISTRY):
        try:
            state = (await bus._client.jetstream().stream_info(store.stream)).cluster
        except (Error, TimeoutError):
            return False
        if state is None or len([each for each in state.replicas or () if each.current]) < SIZE - 1:
            return False
    return True


async def leader_of(bus: NatsBus) -> int:
    """Number of the server that all writes of leases go through."""
    state = (await bus._client.jetstream().stream_info(LEASES.stream)).cluster
    assert state is not None
    return int(str(state.leader).removeprefix("nats-"))


async def replicas_of(bus: NatsBus) -> int | None:
    """Servers that keep the bucket of leases."""
    return (await bus._client.jetstream().stream_info(LEASES.stream)).config.num_replicas


async def test_the_leading_server_of_three_may_be_lost(cluster: Cluster) -> None:
    bus = await connect(cluster.url(0), SIZE)
    revisions = [0]

    async def write() -> bool:
        revision = await bus.swap("lease", ServiceRegistered(service_id="holder"), revisions[-1])
        if revision is None:
            # A write whose answer was lost has been made.
            entry = await bus.read("lease", ServiceRegistered)
            revision = entry.revision if entry is not None else 0
        revisions.append(revision)
        return True

    async def is_registered() -> bool:
        await bus.put("a", ServiceRegistered(service_id="a"))
        return [each.service_id for each in await bus.entries(ServiceRegistered)] == ["a"]

    await until(write)
    await until(is_registered)
    assert await replicas_of(bus) == SIZE
    await until(lambda: is_whole(bus))
    leader = await leader_of(bus)
    await cluster.kill(leader)
    await until(write)
    await until(is_registered)
    assert revisions == sorted(revisions)
    assert await leader_of(bus) != leader
    await cluster.start(leader)
    await until(lambda: is_whole(bus))
    await bus.close()


async def test_a_server_that_is_away_is_passed_over(cluster: Cluster) -> None:
    """As when a service starts while the first server of its setting is lost: no server has told it of others."""
    await cluster.kill(0)
    bus = await connect(",".join(cluster.url(number) for number in range(SIZE)), SIZE)
    await bus.close()


async def test_a_bucket_of_one_server_is_given_to_more(cluster: Cluster) -> None:
    """As when a platform gets a cluster; a service that asks for fewer takes none away."""
    for replicas, kept in ((1, 1), (SIZE, SIZE), (1, SIZE)):
        bus = await connect(cluster.url(1), replicas)

        async def is_read(bus: NatsBus = bus) -> bool:
            await bus.read("lease", ServiceRegistered)
            return True

        await until(is_read)
        assert await replicas_of(bus) == kept
        await bus.close()


async def test_a_bucket_is_used_while_it_has_fewer_replicas(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Covers a cluster that starts without one of its servers. The log says so once."""
    alone = Cluster(tmp_path, 1)
    await alone.start(0)
    bus = await connect(alone.url(0), SIZE)

    async def is_written() -> bool:
        return await bus.swap("lease", ServiceRegistered(service_id="holder"), 0) is not None

    await until(is_written)
    assert await bus.read("lease", ServiceRegistered) is not None
    warnings = [each for each in caplog.records if each.levelname == "WARNING"]
    assert [each.getMessage().partition(":")[0] for each in warnings] == [
        "fewer servers of NATS than nats_replicas keep a bucket"
    ]
    await bus.close()
    await alone.close()
