"""The network between hosts does to packets what a test asks for, and nothing of it is left."""

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.hosts.network.host_network import CLIENTS, HostNetwork

PORT = 5000
ECHO = f"""
import socket
server = socket.create_server(("0.0.0.0", {PORT}))
print("listening", flush=True)
while True:
    connection, _ = server.accept()
    while received := connection.recv(65536):
        connection.sendall(received)
    connection.close()
"""
DELAY = 0.05
SIZE = 1_000_000


@contextlib.contextmanager
def opened(folder: Path) -> Iterator[HostNetwork]:
    """Two hosts, of which one sends back what it gets."""
    folder.mkdir()
    network = HostNetwork(("a", "b"), folder)
    network.open()
    echo = subprocess.Popen([*network["b"].prefix, sys.executable, "-c", ECHO], stdout=subprocess.PIPE, text=True)
    try:
        assert echo.stdout is not None
        assert echo.stdout.readline() == "listening\n"
        yield network
    finally:
        echo.kill()
        echo.communicate()
        network.close()


@pytest.fixture
def network(tmp_path: Path) -> Iterator[HostNetwork]:
    with opened(tmp_path / "network") as network:
        yield network


def seconds_of_echo(network: HostNetwork, size: int = 1, host: str = "a") -> float:
    """Seconds until so many bytes have gone there and back. Raises TimeoutError."""
    with network[host].entered(), socket.create_connection((network.address("b"), PORT), timeout=2) as connection:
        began = time.monotonic()
        rest = size
        while rest:
            connection.sendall(bytes(min(rest, 10_000)))
            part = min(rest, 10_000)
            while part:
                received = len(connection.recv(part))
                part, rest = part - received, rest - received
        return time.monotonic() - began


def lost(network: HostNetwork) -> int:
    """Packets that the rules of the router have dropped."""
    rows = network["router"].run("iptables", "-L", "FORWARD", "-v", "-x", "-n").splitlines()[2:]
    return sum(int(row.split()[0]) for row in rows)


def test_packets_pass_unchanged(network: HostNetwork) -> None:
    assert seconds_of_echo(network, SIZE) < 2.0
    assert seconds_of_echo(network, host=CLIENTS) < DELAY


def test_everything_that_hosts_send_is_delayed(network: HostNetwork) -> None:
    for host in ("a", "b"):
        network.slow(host, DELAY)
    assert seconds_of_echo(network) >= 2 * DELAY
    assert seconds_of_echo(network, SIZE // 20) >= 2 * DELAY
    network.quicken()
    assert min(seconds_of_echo(network) for _ in range(5)) < 2 * DELAY


def test_a_share_of_packets_is_lost(network: HostNetwork) -> None:
    network.lose(0.1)
    seconds_of_echo(network, SIZE // 2)
    assert lost(network) > 0
    network.heal()
    assert lost(network) == 0


@pytest.mark.parametrize("way", [HostNetwork.cut_to, HostNetwork.cut_from])
def test_a_cut_is_silent_and_heals(network: HostNetwork, way: object) -> None:
    assert callable(way)
    way(network, "b")
    with pytest.raises(TimeoutError):
        seconds_of_echo(network)
    network.heal()
    assert seconds_of_echo(network) < 2.0


def test_names_may_lie_and_clocks_differ(network: HostNetwork) -> None:
    network.name({"it": network.address("b")})
    assert network["a"].run("getent", "ahostsv4", "it").split()[0] == network.address("b")
    network.name({"it": network.dead_address("b")}, "a")
    assert network["a"].run("getent", "ahostsv4", "it").split()[0] == network.dead_address("b")
    assert network["b"].run("getent", "ahostsv4", "it").split()[0] == network.address("b")
    clock = f"{sys.executable} -c 'import time; print(time.monotonic())'"
    up = {host: float(network[host].run("sh", "-c", clock)) for host in ("a", "b")}
    assert up["b"] - up["a"] > 86_400


def test_two_networks_do_not_meet(network: HostNetwork, tmp_path: Path) -> None:
    with opened(tmp_path / "other") as other:
        other.cut_to("b")
        assert other.address("b") == network.address("b")
        assert seconds_of_echo(network) < 2.0
        with pytest.raises(TimeoutError):
            seconds_of_echo(other)


def namespaces() -> set[int]:
    """Numbers of all network namespaces in which a process runs."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/ns/net"):
        with contextlib.suppress(OSError):
            found.add(path.stat().st_ino)
    return found


def is_gone(number: int, seconds: float = 5.0) -> bool:
    """Waits until no process is in a namespace."""
    deadline = time.monotonic() + seconds
    while number in namespaces():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def test_nothing_is_left(tmp_path: Path) -> None:
    with opened(tmp_path / "network") as network:
        made = [os.stat(f"/proc/{network[host].pid}/ns/net").st_ino for host in ("a", "b", "router", CLIENTS)]
        assert set(made) <= namespaces()
    assert all(map(is_gone, made))


KILLED = """
import os, sys, time
from pathlib import Path
from tests.hosts.network.host_network import HostNetwork
network = HostNetwork(("a",), Path(sys.argv[1]))
network.open()
network.slow("a", 1.0)
print(os.stat(f"/proc/{network['a'].pid}/ns/net").st_ino, flush=True)
time.sleep(600)
"""


def test_nothing_is_left_by_a_run_that_is_killed(tmp_path: Path, root: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root)
    assert run.stdout is not None
    made = int(run.stdout.readline())
    assert made in namespaces()
    run.kill()
    run.communicate()
    assert is_gone(made)
