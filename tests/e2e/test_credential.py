"""Processes that `headrace up` starts answer its own services only: others on the machine see the gateway."""

import asyncio
import json
import socket
import stat
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from tests.harness.running_platform import RunningPlatform

from headrace.errors import Unauthenticated
from headrace.rpc.channel import open_channel
from headrace.service_clients.worker import GrpcWorkerClient
from headrace.supervisor.state import read_credential

pytestmark = pytest.mark.slow


async def ask_worker(address: str, credential: str) -> str:
    async with open_channel(address, credential) as channel:
        return (await GrpcWorkerClient(channel).get_status(10)).worker_id


def greet_nats(address: str, **options: str) -> bytes:
    """Returns what NATS says to a client that connects with these options."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection, connection.makefile("rb") as lines:
        assert lines.readline().startswith(b"INFO")
        connection.sendall(b"CONNECT " + json.dumps({"verbose": False} | options).encode() + b"\r\nPING\r\n")
        return lines.readline()


def test_workers_and_nats_want_the_credential(demo_platform: RunningPlatform) -> None:
    credential = read_credential(demo_platform.state_dir)
    address = demo_platform.service("worker-0")["address"]
    assert asyncio.run(ask_worker(address, credential)) == "worker-0"
    nats = demo_platform.service("nats")["address"]
    assert greet_nats(nats, auth_token=credential) == b"PONG\r\n"
    assert greet_nats(nats).startswith(b"-ERR 'Authorization")
    for other in ("", "other"):
        with pytest.raises(Unauthenticated):
            asyncio.run(ask_worker(address, other))
        assert greet_nats(nats, auth_token=other).startswith(b"-ERR 'Authorization")


def test_no_other_user_can_read_it(demo_platform: RunningPlatform) -> None:
    credential = read_credential(demo_platform.state_dir)
    assert len(credential) > 30
    for path in Path(demo_platform.state_dir).rglob("*"):
        if path.is_file() and credential.encode() in path.read_bytes():
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    for service in demo_platform.describe()["services"]:
        assert credential not in " ".join(psutil.Process(service["pid"]).cmdline())
    listed = subprocess.run(
        [sys.executable, "-m", "headrace.cli", "ps", "--json", "--state-dir", str(demo_platform.state_dir)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert credential not in listed.stdout
