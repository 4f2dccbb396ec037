"""A platform on several hosts, seen from outside: hosts that die and come back, and links between them."""

import asyncio
import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
from tests.faults.linked_platform import Member
from tests.faults.platforms import POLL_SECONDS, first_of
from tests.hosts.balancer import Balancer
from tests.hosts.fleet_plan import (
    HTTP_PORT,
    MONITORING_PORT,
    NATS_NAMES,
    PLACES,
    PORTS,
    FleetOptions,
    FleetPlan,
    host_of,
    kind_of,
)
from tests.hosts.network.host_network import CLIENTS, HostNetwork
from tests.hosts.release import Release

START_SECONDS = 120.0
LISTENING_SECONDS = 2.0
WORKERS = [name for names in PLACES.values() for name in names if kind_of(name) == "worker"]
GATEWAYS = [name for names in PLACES.values() for name in names if kind_of(name) == "gateway"]
LEASES = "KV_headrace_leases"
"""Stream of the leases."""


class HostPlatform:
    """Processes of all hosts, each started again when it ends, as an init system does."""

    is_linked = False

    def __init__(self, folder: Path, options: FleetOptions | None = None) -> None:
        self.folder = folder
        self.network = HostNetwork(tuple(PLACES), folder)
        self.members: dict[str, Member] = {}
        self.lost_gateways: set[str] = set()
        """Gateways whose hosts have died: what they were just answering ends with them."""
        given = options or FleetOptions()
        self._options = replace(given, settings=(("failpoints", str(folder / "failpoints")), *given.settings))
        self._plan = FleetPlan(folder, self._options)
        self.http = self.http_of(GATEWAYS[0])
        self.balancer = Balancer({name: self.http_of(name) for name in GATEWAYS})

    @property
    def addresses(self) -> dict[str, str]:
        """Address of each process, by its name."""
        return {name: self.network.address(host_of(name)) for name in self.names()}

    def http_of(self, gateway: str) -> str:
        return f"http://{self.network.address(host_of(gateway))}:{HTTP_PORT}"

    def names(self) -> list[str]:
        return [name for names in PLACES.values() for name in names]

    def pid(self, name: str) -> int:
        return self.members[name].pid

    def first(self, kind: str) -> str:
        return first_of(kind, self.names())

    def log(self, name: str) -> str:
        return self._log_path(name).read_text(errors="replace")

    async def start(self) -> None:
        """Returns when every gateway is ready, has every worker, and NATS has all its servers. Raises TimeoutError."""
        self.network.name(self.addresses)
        for host in PLACES:
            self._log_path(PLACES[host][0]).parent.mkdir(parents=True, exist_ok=True)
            for name, command in self._commands(host, self._options.release or Release()):
                self.members[name] = Member(name, command, self._log_path(name))
        for member in self.members.values():
            member.start()
        if not await self.wait_until_whole(START_SECONDS):
            raise TimeoutError(f"not ready within {START_SECONDS} s; {self.log('gateway')[-2000:]}")
        self.balancer.start()

    def install(self, name: str, release: Release) -> None:
        """Has a process run the code of a release from its next start on."""
        self.members[name].command = dict(self._commands(host_of(name), release))[name]

    async def stop(self) -> None:
        await self.balancer.stop()
        self.network.heal()
        await asyncio.gather(*(member.stop() for member in self.members.values()))

    def die(self, host: str) -> None:
        """Kills everything on a host, after its link: no process takes leave."""
        self.network.cut_to(host)
        self.network.cut_from(host)
        self.hold(PLACES[host])
        self.lost_gateways.update(name for name in PLACES[host] if name in GATEWAYS)
        for name in PLACES[host]:
            self.send(name, signal.SIGKILL)

    async def boot(self, host: str) -> None:
        """Starts a host that died, with what it has on its disk."""
        await asyncio.gather(*(self.members[name].wait_until_ended() for name in PLACES[host]))
        self.network.heal()
        self.release(PLACES[host])

    def restore(self) -> None:
        """Undoes all that may still be disturbed: links, delays, names, processes that are held."""
        self.network.heal()
        self.network.quicken()
        self.network.name(self.addresses)
        self.release(self.names())

    def hold(self, names: Iterable[str]) -> None:
        for name in names:
            self.members[name].hold()

    def release(self, names: Iterable[str]) -> None:
        for name in names:
            self.members[name].release()

    def send(self, name: str, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid(name), number)

    async def ended(self, names: Iterable[str], seconds: float) -> None:
        """Waits for processes that were told to end. Raises TimeoutError."""
        async with asyncio.timeout(seconds):
            await asyncio.gather(*(self.members[name].wait_until_ended() for name in names))

    def forget(self, nats: str) -> None:
        """Deletes all that a server of NATS keeps. It does not run meanwhile."""
        shutil.rmtree(self._plan.store(nats), ignore_errors=True)

    async def nats_leader(self) -> str:
        """Name of the server that all writes of leases go through. Raises AssertionError where none is known."""
        for name in NATS_NAMES:
            for account in (await self._ask_nats(name, "/jsz?accounts=true&streams=true")).get("account_details", []):
                for stream in account.get("stream_detail", []):
                    if stream["name"] == LEASES and stream.get("cluster", {}).get("leader"):
                        return str(stream["cluster"]["leader"])
        raise AssertionError("no server of NATS knows who leads the stream of leases")

    async def wait_until_whole(self, seconds: float = 60.0) -> bool:
        """Waits until nothing of a fault is left. Returns False after `seconds`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not await self._is_whole():  # noqa: ASYNC110 - they are other processes
                    await asyncio.sleep(POLL_SECONDS)
                return True
        return False

    def _commands(self, host: str, release: Release) -> Iterator[tuple[str, list[str]]]:
        for name, command in self._plan.commands(host, release):
            yield name, [*self.network[host].prefix, *command]

    async def _is_whole(self) -> bool:
        if not all(member.is_running for member in self.members.values()):
            return False
        services = [name for name in self.names() if name not in NATS_NAMES]
        asked = [*map(self._is_ready, GATEWAYS), *map(self._has_stores, NATS_NAMES), *map(self._listens, services)]
        return all(await asyncio.gather(*asked))

    async def _is_ready(self, gateway: str) -> bool:
        report = await self._get(f"{self.http_of(gateway)}/ready")
        services = report.get("services", {})
        return bool(services) and set(services.values()) == {"ready"} and report["workers_ready"] == len(WORKERS)

    async def _listens(self, name: str) -> bool:
        """Whether a service takes connections, which it does once it can answer."""
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(LISTENING_SECONDS):
                address = self.network.address(host_of(name))
                _reader, writer = await asyncio.open_connection(address, PORTS[kind_of(name)])
            writer.transport.abort()
            return True
        return False

    async def _has_stores(self, nats: str) -> bool:
        """Whether a server has all of its streams."""
        return (await self._ask_nats(nats, "/healthz")).get("status") == "ok"

    async def _ask_nats(self, name: str, path: str) -> dict[str, Any]:
        return await self._get(f"http://{self.network.address(host_of(name))}:{MONITORING_PORT}{path}")

    async def _get(self, url: str) -> dict[str, Any]:
        with contextlib.suppress(httpx2.HTTPError, OSError, ValueError):
            async with httpx2.AsyncClient(timeout=2) as client:
                return dict((await client.get(url)).json())
        return {}

    def _log_path(self, name: str) -> Path:
        return self._plan.folder(host_of(name)) / "logs" / f"{name}.log"


@contextlib.asynccontextmanager
async def on_hosts(options: FleetOptions | None = None) -> AsyncIterator[HostPlatform]:
    """Runs one, with this thread among its clients, and ends it whatever state it is in."""
    with tempfile.TemporaryDirectory(prefix="headrace-hosts-", ignore_cleanup_errors=True) as name:
        platform = HostPlatform(Path(name), options)
        try:
            platform.network.open()
            with platform.network[CLIENTS].entered():
                try:
                    await platform.start()
                    yield platform
                finally:
                    await platform.stop()
        finally:
            platform.network.close()
