"""The owner of a connection is found by its ports, whatever family its socket is of."""

import os
import socket

import pytest
from tests.faults.socket_owner import inode_of, owner_of


@pytest.mark.parametrize(
    ("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::ffff:127.0.0.1")], ids=["IPv4", "mapped"]
)
def test_the_owner_of_a_connection_is_found(family: socket.AddressFamily, host: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(family) as client:
        client.connect((host, server.getsockname()[1]))
        inode = inode_of(client.getsockname()[1], server.getsockname()[1])
        assert inode == os.fstat(client.fileno()).st_ino
        assert owner_of(inode, {"init": 1, "me": os.getpid()}) == "me"
        assert owner_of(inode, {"nobody": 2**22 + 1}) is None


def test_a_connection_that_is_not_there_has_no_inode() -> None:
    assert inode_of(1, 2) is None
