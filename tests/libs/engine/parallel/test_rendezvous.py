"""Ranks find the first one at an address: that of this machine, or one that an outside launcher gives them."""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.harness.free_ports import free_ports
from tests.libs.engine.engine_running import engine_config, request, run
from tests.libs.engine.parallel.running_followers import FOLLOWER, running_followers
from tests.libs.engine.tiny_models import make_family, make_prompts

from headrace.engine.loading.load_text_engine import load_text_engine
from headrace.engine.parallel.rendezvous import LEADER_VARIABLE, AddressedRendezvous, find_leader, leader_address
from headrace.errors import ConfigError

HOST = "127.0.0.1"
SETTINGS = {"block_count": 64, "max_running_count": 4, "max_step_token_count": 32, "kernels": "torch"}


@pytest.fixture
def rendezvous() -> Iterator[AddressedRendezvous]:
    opened = AddressedRendezvous(f"{HOST}:0", 2)
    yield opened
    opened.close()


def test_an_argument_wins_over_the_environment() -> None:
    environ = {LEADER_VARIABLE: "there:2"}
    assert leader_address("here:1", environ) == ("here", 1)
    assert leader_address("", environ) == ("there", 2)


@pytest.mark.parametrize(
    ("argument", "environ", "said"),
    [
        ("", {}, "is not given"),
        ("here", {}, "is 'here'"),
        (":5", {}, "is ':5'"),
        ("", {LEADER_VARIABLE: "here:port"}, "is 'here:port'"),
    ],
)
def test_an_address_that_is_none_is_refused(argument: str, environ: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=f"address of the first rank {said}: it is HOST:PORT, in --leader or in HEAD"):
        leader_address(argument, environ)


def test_a_rank_waits_for_a_first_rank_that_starts_later() -> None:
    address = (HOST, free_ports(1)[0])
    found: list[socket.socket] = []
    looking = threading.Thread(target=lambda: found.append(find_leader(address, 30.0)))
    looking.start()
    with socket.create_server(address) as listener:
        listener.settimeout(30.0)
        accepted, _ = listener.accept()
        looking.join(30.0)
    assert found[0].getpeername() == accepted.getsockname() == address
    for connection in (accepted, *found):
        connection.close()


def test_a_first_rank_that_does_not_come_is_named() -> None:
    address = (HOST, free_ports(1)[0])
    began = time.monotonic()
    with pytest.raises(ConfigError, match=f"no first rank answers at {HOST}:{address[1]}, for 0 s: .*refused"):
        find_leader(address, 0.0)
    assert time.monotonic() - began < 5.0


def test_ranks_that_do_not_come_are_not_waited_for_longer(rendezvous: AddressedRendezvous) -> None:
    with pytest.raises(TimeoutError):
        rendezvous.accept(0.01)


def test_an_open_rendezvous_is_reached_until_it_is_closed(rendezvous: AddressedRendezvous) -> None:
    address = (HOST, rendezvous.port)
    with find_leader(address, 5.0) as theirs, rendezvous.accept(5.0) as ours:
        assert ours.getpeername() == theirs.getsockname()
    rendezvous.close()
    with pytest.raises(ConfigError):
        find_leader(address, 0.0)


@pytest.mark.parametrize("address", ["nowhere", "127.0.0.1:x", "192.0.2.1:1"])
def test_an_address_that_is_not_of_this_machine_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match=f"rendezvous is '{address}'"):
        AddressedRendezvous(address, 2)


@pytest.mark.process
def test_a_rank_that_an_outside_launcher_starts_joins_the_group(tmp_path: Path) -> None:
    """It starts before the first rank, which listens on all addresses of the machine and starts no process."""
    make_family(tmp_path, "llama")
    port = free_ports(1)[0]
    alone, _ = answers_of(tmp_path)
    command = [sys.executable, "-P", "-m", FOLLOWER]
    with subprocess.Popen(command, env={**os.environ, LEADER_VARIABLE: f"{HOST}:{port}"}) as launched:
        try:
            shared, children = answers_of(tmp_path, rendezvous=f"0.0.0.0:{port}", tensor_parallel_count=2)
            assert children == [launched.pid]
            assert launched.wait(20) == 0
        finally:
            launched.kill()
    assert shared == alone


@pytest.mark.process
def test_a_rank_without_an_address_says_what_it_needs() -> None:
    environ = {name: value for name, value in os.environ.items() if name != LEADER_VARIABLE}
    command = [sys.executable, "-P", "-m", FOLLOWER]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("the address of the first rank is not given: it is HOST:PORT")


def answers_of(source: Path, **settings: object) -> tuple[dict[str, list[int]], list[int]]:
    """Answers two prompts, and lists the processes of this one that are other ranks meanwhile."""
    engine = load_text_engine(source, engine_config(**(SETTINGS | settings)))
    try:
        children = running_followers()
        prompts = make_prompts((5, 40))
        asked = (request(str(number), prompt, max_tokens=8, temperature=0) for number, prompt in enumerate(prompts))
        return run(engine, *asked), children
    finally:
        engine.close()
