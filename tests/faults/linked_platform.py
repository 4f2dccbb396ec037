"""A platform whose services reach each other, and NATS, through proxies only: every pair has a link of its own."""

import asyncio
import contextlib
import shutil
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import psutil
from tests.faults.platforms import Shape, first_of, wait_until_whole, write_config
from tests.faults.socket_owner import inode_of, owner_of
from tests.harness.connection import Link
from tests.harness.free_ports import free_ports
from tests.harness.tcp_proxy import Ends, TcpProxy

from headrace import demo_model
from headrace.supervisor.nats_server import find_nats_server

START_SECONDS = 120.0
STOP_SECONDS = 8.0
BACKOFF_SECONDS = 0.2
TARGETS = ("nats", "tokenizer", "tokenizer-1", "scheduler", "cache")
"""Processes that others connect to, besides workers."""


class Member:
    """One process, started again for as long as it is wanted."""

    def __init__(self, name: str, command: Sequence[str], log_path: Path) -> None:
        self.name, self.command = name, list(command)
        self._log_path = log_path
        self._process: asyncio.subprocess.Process | None = None
        self._wanted = asyncio.Event()
        self._wanted.set()
        self._task: asyncio.Task[None] | None = None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    @property
    def pid(self) -> int:
        """Raises ProcessLookupError while there is none."""
        if self._process is None or not self.is_running:
            raise ProcessLookupError(self.name)
        return self._process.pid

    def start(self) -> None:
        self._task = asyncio.create_task(self._keep_running(), name=f"member-{self.name}")

    def hold(self) -> None:
        """Does not start it again until released."""
        self._wanted.clear()

    def release(self) -> None:
        self._wanted.set()

    async def wait_until_ended(self) -> None:
        if self._process is not None:
            await self._process.wait()

    async def stop(self) -> None:
        """SIGCONT and SIGTERM, then SIGKILL."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        process = self._process
        if process is None or process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError, psutil.Error):
            psutil.Process(process.pid).resume()
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), STOP_SECONDS)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def _keep_running(self) -> None:
        while True:
            await self._wanted.wait()
            with self._log_path.open("ab") as log:
                self._process = await asyncio.create_subprocess_exec(*self.command, stdout=log, stderr=log)
            await self._process.wait()
            await asyncio.sleep(BACKOFF_SECONDS)


class LinkedPlatform:
    """Services as processes, and the links between them."""

    is_linked = True

    def __init__(self, shape: Shape, folder: Path) -> None:
        self.folder = folder
        self.members: dict[str, Member] = {}
        self._shape = shape
        self._links: dict[tuple[str, str], Link] = {}
        self._sockets: list[socket.socket] = []
        self._workers = [f"worker-{index}" for index in range(shape.worker_count)]
        self._addresses = {name: self._reserve() for name in (*TARGETS, *self._workers, "gateway", "http")}
        self._proxies: list[TcpProxy] = []
        self.http = f"http://{self._addresses['http']}"
        self.store = folder / "nats"

    def names(self) -> list[str]:
        return list(self.members)

    def pid(self, name: str) -> int:
        return self.members[name].pid

    def first(self, kind: str) -> str:
        return first_of(kind, self.names())

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def link(self, source: str, target: str) -> Link:
        """The link between a process and one that it connects to."""
        return self._links.setdefault((source, target), Link())

    def pairs(self) -> list[tuple[str, str]]:
        """Pairs (source, target) between which there has been a connection."""
        return [pair for pair in self._links if all(pair)]

    def links(self) -> list[Link]:
        """Every link over which something has been connected."""
        return list(self._links.values())

    async def start(self) -> None:
        """Returns when everything is ready. Raises TimeoutError."""
        self.store.mkdir(parents=True)
        config = write_config(self._shape, self.folder)
        self._free("nats")
        for name, command in (await self._commands(config)).items():
            self.members[name] = Member(name, command, self.folder / f"{name}.log")
            self.members[name].start()
        if not await wait_until_whole(self, self._shape.worker_count, START_SECONDS):
            raise TimeoutError(f"not ready within {START_SECONDS} s; the gateway's log: {self.log('gateway')[-2000:]}")

    async def stop(self) -> None:
        """Ends the processes, then the proxies."""
        for link in self._links.values():
            link.heal()
        await asyncio.gather(*(member.stop() for member in self.members.values()))
        for proxy in self._proxies:
            await proxy.close()
        for reserved in self._sockets:
            reserved.close()

    def forget_nats(self) -> None:
        """Empties the store of a NATS that does not run."""
        shutil.rmtree(self.store)
        self.store.mkdir()

    async def _commands(self, config: Path) -> dict[str, list[str]]:
        """The command of each process. Every address that one is told of another leads through a proxy."""
        host, _, port = self._addresses["nats"].rpartition(":")
        commands = {"nats": [find_nats_server(), "--addr", host, "--port", port, "--jetstream", "-sd", str(self.store)]}
        arguments = {
            "tokenizer": ["--models", f"headrace-demo={demo_model.CHECKPOINT}"],
            "cache": ["--folder", str(self.folder / "cache")],
            "scheduler": [
                "--cache-addresses",
                await self._between("scheduler", "cache"),
                *self._workers_file("scheduler"),
            ],
            "gateway": ["--http-address", self._addresses["http"], *self._workers_file("gateway")],
        }
        arguments["tokenizer-1"] = arguments["tokenizer"]
        tokenizers = [await self._between("gateway", name) for name in ("tokenizer", "tokenizer-1")]
        arguments["gateway"] += ["--tokenizer-addresses", ",".join(tokenizers)]
        arguments["gateway"] += ["--scheduler-addresses", await self._between("gateway", "scheduler")]
        arguments["gateway"] += ["--cache-addresses", await self._between("gateway", "cache")]
        for name in self._workers:
            advertised = await self._in_front_of(name)
            arguments[name] = ["--model", "headrace-demo", "--engine", "sim", "--advertise-address", advertised]
        for name, more in arguments.items():
            nats = await self._between(name, "nats")
            command = [sys.executable, "-m", f"headrace.{name.partition('-')[0]}", "--service-id", name]
            command += ["--listen-address", self._addresses[name], "--nats-url", f"nats://{nats}"]
            commands[name] = [*command, "--config", str(config), *more]
        return commands

    def _workers_file(self, name: str) -> list[str]:
        return ["--workers-file", str(self.folder / f"workers-of-{name}.json")]

    async def _between(self, source: str, target: str) -> str:
        """The address at which `source` reaches `target`."""
        return await self._open_proxy(target, lambda _connection: self.link(source, target))

    async def _in_front_of(self, target: str) -> str:
        """The address at which everyone reaches `target`: the proxy looks who it is."""
        return await self._open_proxy(target, lambda connection: self.link(self._owner(connection), target))

    async def _open_proxy(self, target: str, link_of: Callable[[Ends], Link]) -> str:
        proxy = TcpProxy(self._addresses[target], link_of)
        self._proxies.append(proxy)
        await proxy.start()
        return proxy.address

    def _owner(self, connection: Ends) -> str:
        """The process that made a connection; empty when it is gone."""
        inode = inode_of(*connection)
        return (owner_of(inode, self._pids()) if inode else None) or ""

    def _pids(self) -> dict[str, int]:
        return {name: member.pid for name, member in self.members.items() if member.is_running}

    def _reserve(self) -> str:
        """An address that stays ours while the process that serves there comes and goes."""
        reserved = socket.socket()
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        reserved.bind(("127.0.0.1", free_ports(1)[0]))
        self._sockets.append(reserved)
        return f"127.0.0.1:{reserved.getsockname()[1]}"

    def _free(self, name: str) -> None:
        """Gives a port up for a program that does not share."""
        for reserved in self._sockets:
            if self._addresses[name].endswith(f":{reserved.getsockname()[1]}"):
                reserved.close()
                self._sockets.remove(reserved)
                return


@contextlib.asynccontextmanager
async def linked(shape: Shape) -> AsyncIterator[LinkedPlatform]:
    """Runs one, and ends it whatever state it is in."""
    with tempfile.TemporaryDirectory(prefix="headrace-faults-", ignore_cleanup_errors=True) as name:
        platform = LinkedPlatform(shape, Path(name))
        try:
            await platform.start()
            yield platform
        finally:
            await platform.stop()
