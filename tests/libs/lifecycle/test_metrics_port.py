"""The port on which a process shows its metrics."""

import socket

import httpx2
import pytest
from tests.harness.free_ports import free_ports

from headrace.errors import AddressInUse
from headrace.lifecycle.metrics_port import shown_metrics


def test_metrics_are_shown_for_as_long_as_asked() -> None:
    (port,) = free_ports(1)
    for _ in range(2):
        with shown_metrics(port):
            assert "python_info" in httpx2.get(f"http://127.0.0.1:{port}/metrics", timeout=10).text
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=10)


def test_a_taken_port_is_named() -> None:
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(AddressInUse, match=f"port {port}.*metrics_port"), shown_metrics(port):
            pass


def test_a_port_beyond_the_last_is_refused() -> None:
    """A high port and the number of a process may add up to one."""
    with pytest.raises(AddressInUse, match="port 65536"), shown_metrics(65536):
        pass


def test_port_zero_shows_none() -> None:
    with shown_metrics(0):
        pass
