"""The compose file gives services and NATS one secret, with nothing for the user to do. No Docker is needed: what its
containers run is run here."""

import asyncio
import os
import re
import stat
import subprocess
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from headrace.bus.nats_bus import NatsBus
from headrace.cache.app import open_app
from headrace.cache.config import CacheSettings
from headrace.errors import Unauthenticated
from headrace.lifecycle import ServiceSettings, channels_to
from headrace.lifecycle.run import serving
from headrace.service_clients.cache import GrpcCacheClient
from headrace.supervisor.nats_server import LocalNats, find_nats_server

SERVICES = ["gateway", "tokenizer", "scheduler", "cache", "worker"]
MOUNTED_AT = "/credential"
GIVEN = "4f0c9a2b7d1e4f0c9a2b7d1e"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "credential"
    made.mkdir()
    return made


def make(root: Path, compose: dict[str, Any], folder: Path, given: str = "") -> subprocess.CompletedProcess[str]:
    """Runs what the container runs, on a folder of this machine."""
    service = compose["services"]["credential"]
    mounted = dict(volume.split(":")[1::-1] for volume in service["volumes"])
    assert mounted[MOUNTED_AT] == "credential"
    places = {MOUNTED_AT: str(folder)} | {
        name: str(root / source) for name, source in mounted.items() if source.startswith(".")
    }
    command = [places.get(part, part) for part in service["entrypoint"]]
    environment = dict.fromkeys(service["environment"], given) | {"PATH": os.environ["PATH"]}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=30)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.process
def test_the_first_start_makes_a_secret_and_later_ones_keep_it(
    root: Path, compose: dict[str, Any], folder: Path, tmp_path: Path
) -> None:
    assert make(root, compose, folder).returncode == 0
    secret = (folder / "credential").read_text().strip()
    assert re.fullmatch(r"hr-[0-9a-f]{48}", secret)
    assert f'"{secret}"' in (folder / "nats.conf").read_text()
    assert make(root, compose, folder).returncode == 0
    assert (folder / "credential").read_text().strip() == secret
    other = tmp_path / "other"
    other.mkdir()
    make(root, compose, other)
    assert (other / "credential").read_text().strip() != secret


@pytest.mark.process
def test_its_group_reads_the_secret_and_nobody_else(root: Path, compose: dict[str, Any], folder: Path) -> None:
    make(root, compose, folder)
    assert {path.name: mode(path) for path in folder.iterdir()} == {"credential": 0o640, "nats.conf": 0o600}
    dockerfile = (root / "deploy/docker/Dockerfile").read_text()
    user, _, group = compose["services"]["credential"]["user"].partition(":")
    assert (user, f"USER {group}:{group}\n" in dockerfile) == ("0", True)


@pytest.mark.process
def test_a_secret_of_the_operator_takes_its_place(root: Path, compose: dict[str, Any], folder: Path) -> None:
    make(root, compose, folder)
    assert make(root, compose, folder, GIVEN).returncode == 0
    assert (folder / "credential").read_text().strip() == GIVEN
    assert make(root, compose, folder).returncode == 0
    assert (folder / "credential").read_text().strip() == GIVEN


@pytest.mark.process
@pytest.mark.parametrize(
    ("given", "said"), [("short", "too short"), (f'{GIVEN}"; x: "', "letters, digits"), (f"{GIVEN} ", "letters")]
)
def test_a_secret_that_is_none_stops_the_start(
    root: Path, compose: dict[str, Any], folder: Path, given: str, said: str
) -> None:
    done = make(root, compose, folder, given)
    assert (done.returncode, said in done.stderr, list(folder.iterdir())) == (78, True, [])


def test_the_services_and_nats_wait_for_it_and_read_it(compose: dict[str, Any]) -> None:
    """It ends by itself, so it is not started again, and `up --wait` knows by these conditions that it may end."""
    assert compose["services"]["credential"]["restart"] == "no"
    for name in [*SERVICES, "nats"]:
        service = compose["services"][name]
        assert service["depends_on"]["credential"] == {"condition": "service_completed_successfully"}, name
        assert f"credential:{MOUNTED_AT}:ro" in service["volumes"], name
        if name != "nats":
            assert service["environment"][f"HEADRACE_{name.upper()}_CREDENTIAL_FILE"] == f"{MOUNTED_AT}/credential"
    readers = {name for name, each in compose["services"].items() if f"{MOUNTED_AT}:ro" in str(each.get("volumes"))}
    assert readers == {*SERVICES, "nats"}


class ComposedNats(LocalNats):
    """NATS as the compose file starts it, on ports and in folders of this machine."""

    def __init__(self, folder: Path, arguments: Sequence[str]) -> None:
        super().__init__(folder)
        self._arguments = arguments

    def command(self, port: int) -> Sequence[str]:
        local = ["--addr", "127.0.0.1", "--port", str(port), "--ports_file_dir", str(self._port_folder)]
        return [find_nats_server(), *self._arguments, *local]


@pytest.fixture
async def nats(root: Path, compose: dict[str, Any], folder: Path, tmp_path: Path) -> AsyncIterator[ComposedNats]:
    make(root, compose, folder)
    places = {f"{MOUNTED_AT}/nats.conf": str(folder / "nats.conf"), "/data": str(tmp_path / "data"), "8222": "-1"}
    server = ComposedNats(
        tmp_path / "nats", [places.get(part, part) for part in compose["services"]["nats"]["command"]]
    )
    quiet = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(*server.command(-1), stdout=quiet, stderr=quiet)
    try:
        deadline = time.monotonic() + 15
        while not await server.is_ready():
            assert process.returncode is None, "NATS ended"
            assert time.monotonic() < deadline, "NATS did not start"
            await asyncio.sleep(0.02)
        yield server
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def until_connected(bus: object) -> None:
    assert isinstance(bus, NatsBus)
    deadline = time.monotonic() + 15
    while not bus.connected:
        assert time.monotonic() < deadline, "NATS did not let the service in"
        await asyncio.sleep(0.02)


@pytest.mark.anyio
@pytest.mark.process
async def test_a_service_with_the_file_is_let_in_and_answers_others_with_it(
    nats: ComposedNats, folder: Path, tmp_path: Path
) -> None:
    own = CacheSettings(folder=tmp_path / "cache", nats_url=nats.url, credential_file=folder / "credential")
    async with open_app(own) as service, serving(own, service) as address:
        await until_connected(service.bus)
        async with channels_to("cache", own)(address) as channel:
            assert await GrpcCacheClient(channel).lookup_response("t", b"key", 10) is None
        async with channels_to("cache", ServiceSettings.of(service_id="other"))(address) as channel:
            with pytest.raises(Unauthenticated):
                await GrpcCacheClient(channel).lookup_response("t", b"key", 10)


@pytest.mark.anyio
@pytest.mark.process
async def test_nats_refuses_others(nats: ComposedNats) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", nats.port)
    try:
        writer.write(b'CONNECT {"verbose": false}\r\nPING\r\n')
        async with asyncio.timeout(15):
            assert (await reader.readline()).startswith(b"INFO")
            assert (await reader.readline()).startswith(b"-ERR 'Authorization")
    finally:
        writer.close()
        await writer.wait_closed()
