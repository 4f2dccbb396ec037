"""A process that answers no more and does nothing is started again; one that is busy, or only starts, is not."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.domain.deadline import Deadline
from headrace.supervisor.freeze import ANSWER_INTERVAL, AnswerPatience, until_frozen
from headrace.supervisor.process import LocalProcess, SupervisedProcess
from headrace.supervisor.spawning.process_start import ProcessStart
from headrace.supervisor.spawning.program_spawner import ProgramSpawner

pytestmark = pytest.mark.anyio
TIMEOUT = 30.0
SERVER = """
import socket, sys, time
from dataclasses import replace
from pathlib import Path
deaf, busy, port_file = (Path(sys.argv[1], name) for name in ("deaf", "busy", "port"))
listening = socket.create_server(("127.0.0.1", 0))
port_file.with_suffix(".new").write_text(str(listening.getsockname()[1]))
port_file.with_suffix(".new").replace(port_file)
while True:
    connection, _ = listening.accept()
    while deaf.exists():
        time.sleep(0 if busy.exists() else 0.05)
    connection.sendall(b"here")
    connection.close()
"""


class Server:
    """A process that answers each connection, unless it is made deaf."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.process = SupervisedProcess(
            LocalProcess(
                name="server",
                start=ProcessStart([sys.executable, "-c", SERVER, str(folder)], folder / "log"),
                is_ready=lambda: asyncio.ensure_future(self.answers()),
                answers=self.answers,
                address=lambda: "",
                patience=AnswerPatience(frozen_seconds=1.0, busy_seconds=4.0),
            ),
            ProgramSpawner(),
            lambda: None,
        )

    def make(self, name: str) -> None:
        (self._folder / name).touch()

    def unmake(self, name: str) -> None:
        (self._folder / name).unlink()

    async def answers(self) -> bool:
        try:
            async with asyncio.timeout(1.0):
                port = int((self._folder / "port").read_text())
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                try:
                    return await reader.read(4) == b"here"
                finally:
                    writer.close()
        except (OSError, TimeoutError):
            return False


@pytest.fixture
async def server(tmp_path: Path) -> "Server":
    return Server(tmp_path)


async def until(condition: Callable[[], bool]) -> None:
    deadline = Deadline.after(TIMEOUT)
    while not condition():
        assert not deadline.expired
        await asyncio.sleep(0.01)


@pytest.mark.process
async def test_a_stopped_process_is_killed_and_started_again(server: Server, tmp_path: Path) -> None:
    process = server.process
    process.start()
    try:
        await process.wait_ready(Deadline.after(TIMEOUT))
        stopped = process.pid
        assert stopped is not None
        os.kill(stopped, signal.SIGSTOP)
        await until(lambda: process.restarts == 1 and process.ready.is_set())
        assert process.pid != stopped
        assert await server.answers()
        assert f"server (pid {stopped}) did not answer for" in (tmp_path / "log").read_text()
    finally:
        await process.stop()


@pytest.mark.process
async def test_a_process_that_waits_for_ever_is_frozen(server: Server) -> None:
    process = server.process
    process.start()
    try:
        await process.wait_ready(Deadline.after(TIMEOUT))
        server.make("deaf")
        await until(lambda: process.restarts == 1)
        server.unmake("deaf")
        await until(process.ready.is_set)
    finally:
        await process.stop()


@pytest.mark.process
async def test_a_process_that_computes_is_given_more_time(server: Server) -> None:
    process = server.process
    process.start()
    try:
        await process.wait_ready(Deadline.after(TIMEOUT))
        began = time.monotonic()
        server.make("busy")
        server.make("deaf")
        await until(lambda: process.restarts == 1)
        assert time.monotonic() - began >= 4.0 - ANSWER_INTERVAL
        server.unmake("deaf")
        await until(process.ready.is_set)
    finally:
        await process.stop()


@pytest.mark.process
async def test_a_process_that_is_not_ready_yet_may_take_its_time(server: Server) -> None:
    process = server.process
    server.make("deaf")
    process.start()
    try:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(process.ready.wait(), 2.0)
        assert process.restarts == 0
        server.unmake("deaf")
        await process.wait_ready(Deadline.after(TIMEOUT))
        assert process.restarts == 0
    finally:
        await process.stop()


@pytest.mark.process
async def test_a_supervisor_that_stood_still_blames_nobody(server: Server) -> None:
    """The whole machine was suspended: the answer was due long ago, but could not have been received."""
    process = server.process
    process.start()
    try:
        await process.wait_ready(Deadline.after(TIMEOUT))
        assert process.pid is not None
        watching = asyncio.create_task(until_frozen(server.answers, process.pid, AnswerPatience(1.0, 1.0)))
        await asyncio.sleep(0.1)
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(2.2)  # noqa: ASYNC251
        os.kill(process.pid, signal.SIGCONT)
        await asyncio.wait({watching}, timeout=2.0)
        assert not watching.done()
        watching.cancel()
        assert process.restarts == 0
    finally:
        await process.stop()


@pytest.mark.process
async def test_a_process_that_ends_in_silence_is_not_cut_short(tmp_path: Path) -> None:
    """A process that is stopping answers no more and takes longer than a frozen one would be given."""
    lingering = "import signal\nsignal.signal(signal.SIGTERM, lambda *_: (time.sleep(2.5), sys.exit(0)))\n" + SERVER
    lingering = "import sys, time\n" + lingering
    server = Server(tmp_path)
    process = server.process
    start = ProcessStart([sys.executable, "-c", lingering, str(tmp_path)], tmp_path / "log")
    process.spec = replace(process.spec, start=start, stop_seconds=TIMEOUT)
    process.start()
    await process.wait_ready(Deadline.after(TIMEOUT))
    await process.stop()
    assert "did not answer" not in (tmp_path / "log").read_text()
