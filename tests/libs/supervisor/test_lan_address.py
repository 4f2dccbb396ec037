"""Addresses of a platform: who reaches it is known before it starts, and every address has a name in a URL."""

import socket

import pytest

from headrace.errors import AddressInUse, ConfigError
from headrace.supervisor.lan_address import is_loopback_address, joined, lan_host, near_host
from headrace.supervisor.ports import PortReservation


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_loopback_is_this_machine_only(host: str) -> None:
    assert is_loopback_address(host)
    assert near_host(host) == lan_host(host) == host


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "10.0.0.1", "myhost", "fe80::1"])
def test_everything_else_is_reached_by_others(host: str) -> None:
    assert not is_loopback_address(host)
    assert near_host(host) not in {"0.0.0.0", "::"}
    assert lan_host(host) not in {"0.0.0.0", "::"}


def test_addresses_read_as_in_urls() -> None:
    assert joined("127.0.0.1", 80) == "127.0.0.1:80"
    assert joined("::1", 80) == "[::1]:80"


def test_a_port_is_kept_on_its_address() -> None:
    kept = PortReservation(0, "http", listens=True, host="127.0.0.2")
    try:
        assert kept.address == f"127.0.0.2:{kept.port}"
        socket.create_connection(("127.0.0.2", kept.port), timeout=5).close()
        with pytest.raises(AddressInUse, match="in use"):
            PortReservation(kept.port, "http", host="127.0.0.2")
    finally:
        kept.close()


@pytest.mark.parametrize("host", ["192.0.2.7", "no-such-host.invalid"])
@pytest.mark.parametrize("port", [0, 8000])
def test_an_address_of_another_machine_is_refused(host: str, port: int) -> None:
    with pytest.raises(ConfigError, match="not an address of this machine"):
        PortReservation(port, "http", host=host)
