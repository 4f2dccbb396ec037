"""Several services behind one port are told apart by a name in their address."""

import pytest

from headrace.rpc.member_address import KEY, joined, named, split


@pytest.mark.parametrize(("address", "name"), [("127.0.0.1:80", "worker-0-a"), ("[::1]:9", ""), ("host:1", "x-y_z")])
def test_what_is_joined_can_be_split(address: str, name: str) -> None:
    assert split(joined(address, name)) == (address, name)


def test_a_call_names_its_service() -> None:
    assert named([("other", "x"), (KEY, "worker-0-a")]) == "worker-0-a"
    assert named([(KEY, b"worker-0-b")]) == "worker-0-b"
    assert named([]) == named(None) == ""
