"""Endpoints come from flags, from a file that changes, and from a name that is resolved again."""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from headrace.errors import ConfigError
from headrace.scheduler.picker.endpoints.endpoint_list import EndpointList, checked_endpoint, look_up

pytestmark = pytest.mark.anyio


class Names:
    """Resolver whose answers are set."""

    def __init__(self) -> None:
        self.addresses: Sequence[str] | None = ["10.0.0.7"]

    async def look_up(self, name: str, port: int) -> Sequence[str]:
        assert (name, port) == ("vllm.ai.svc", 8000)
        if self.addresses is None:
            raise OSError("no such name")
        return self.addresses


@pytest.mark.parametrize(
    ("text", "endpoint"),
    [(" 10.0.0.1:8000 ", "10.0.0.1:8000"), ("[2001:db8::0:1]:80", "[2001:db8::1]:80"), ("1.2.3.4:080", "1.2.3.4:80")],
)
def test_an_endpoint_is_an_address_and_a_port(text: str, endpoint: str) -> None:
    assert checked_endpoint(text) == endpoint


@pytest.mark.parametrize("text", ["", "vllm:8000", "10.0.0.1", "10.0.0.1:0", "10.0.0.1:65536", "10.0.0.1:x", "::1:²"])
def test_anything_else_is_none(text: str) -> None:
    with pytest.raises(ConfigError, match="it must be IP:PORT"):
        checked_endpoint(text)


async def test_a_file_is_read_again_when_it_has_changed(tmp_path: Path) -> None:
    file = tmp_path / "endpoints"
    file.write_text("10.0.0.1:8000 # the first\n\n10.0.0.2:8000\n")
    endpoints = EndpointList(["10.0.0.9:8000"], file)
    assert await endpoints.read() == {"10.0.0.1:8000", "10.0.0.2:8000", "10.0.0.9:8000"}
    file.write_text("10.0.0.3:8000\n")
    os.utime(file, ns=(1, 1))
    assert await endpoints.read() == {"10.0.0.3:8000", "10.0.0.9:8000"}
    file.write_text("")
    assert await endpoints.read() == {"10.0.0.9:8000"}


async def test_a_file_that_cannot_be_read_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "endpoints"
    file.write_text("10.0.0.1:8000\n")
    endpoints = EndpointList(file=file)
    await endpoints.read()
    for content in (b"10.0.0.1:8000\nno endpoint\n", b"\xff\xfe"):
        file.write_bytes(content)
        assert await endpoints.read() == {"10.0.0.1:8000"}
    file.unlink()
    assert await endpoints.read() == {"10.0.0.1:8000"}


async def test_a_service_is_resolved_each_time_and_kept_while_it_cannot_be() -> None:
    names = Names()
    endpoints = EndpointList(service="vllm.ai.svc:8000", lookup=names.look_up)
    assert await endpoints.read() == {"10.0.0.7:8000"}
    names.addresses = ["10.0.0.8", "2001:db8::1"]
    assert await endpoints.read() == {"10.0.0.8:8000", "[2001:db8::1]:8000"}
    names.addresses = None
    assert await endpoints.read() == {"10.0.0.8:8000", "[2001:db8::1]:8000"}


async def test_the_resolver_of_the_machine_is_asked() -> None:
    assert "127.0.0.1" in await look_up("127.0.0.1", 8000)


@pytest.mark.parametrize(
    ("service", "message"), [("", "no endpoints are named"), ("vllm", "NAME:PORT"), (":1", "NAME:PORT")]
)
def test_a_pool_that_cannot_be_found_is_refused(service: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        EndpointList(service=service)
