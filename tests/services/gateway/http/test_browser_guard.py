"""Web pages: which may ask, under which name, with which body, and what their browsers are told."""

import contextlib
import json
from typing import Any

import pytest
from tests.services.gateway.served_bridge import Gateway, body_of, serving

from headrace.errors import ConfigError
from headrace.gateway.config import GatewaySettings
from headrace.settings import load
from headrace.settings.web.web_names import is_same_origin

pytestmark = pytest.mark.anyio
PAGE = "https://chat.example"
CORS = "access-control-allow-origin"


async def ask(
    gateway: Gateway, head: str, method: str = "POST", path: str = "/v1/completions", body: bytes = b""
) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of one request that brings the lines of `head`."""
    reader, writer = await gateway.connect()
    lines = [f"{method} {path} HTTP/1.1", "connection: close", *head.splitlines()]
    if method == "POST":
        body = body or body_of()
        lines.append(f"content-length: {len(body)}")
    writer.write("\r\n".join([*lines, "", ""]).encode() + body)
    whole = await gateway.read_all(reader)
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()
    top, _, content = whole.partition(b"\r\n\r\n")
    status, *rest = top.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in rest)}
    return int(status.split()[1]), headers, content


def error_of(content: bytes) -> dict[str, Any]:
    error: dict[str, Any] = json.loads(content)["error"]
    return error


@pytest.mark.parametrize(
    "host", ["localhost", "LocalHost:8000", "localhost.", "app.localhost", "127.0.0.1", "127.9.9.9:1", "[::1]:8000"]
)
async def test_a_loopback_address_answers_to_the_names_of_the_machine(host: str) -> None:
    async with serving() as gateway:
        status, headers, _ = await ask(gateway, f"host: {host}")
        assert status == 200
        assert CORS not in headers


@pytest.mark.slow
@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8000", "10.0.0.1", "localhost.evil.example", "", "[::2]"]
)
@pytest.mark.parametrize("path", ["/v1/completions", "/v1/models", "/metrics", "/nothing"])
async def test_a_name_that_was_bound_to_loopback_from_outside_is_refused(host: str, path: str) -> None:
    async with serving() as gateway:
        method = "POST" if path == "/v1/completions" else "GET"
        status, _, content = await ask(gateway, f"host: {host}\norigin: http://{host}", method, path)
        assert status == 403
        assert error_of(content)["param"] == "host"
        assert "gateway.allowed_hosts" in error_of(content)["message"]
        assert len(gateway.ledger) == 0


async def test_further_names_are_allowed_by_setting() -> None:
    async with serving(allowed_hosts="box.lan,::2") as gateway:
        assert (await ask(gateway, "host: BOX.lan:8000"))[0] == 200
        assert (await ask(gateway, "host: [::2]:8000"))[0] == 200
        assert (await ask(gateway, "host: other.lan"))[0] == 403
    async with serving(allowed_hosts="*") as gateway:
        assert (await ask(gateway, "host: other.lan"))[0] == 200


async def test_an_address_reached_from_outside_answers_to_every_name_unless_some_are_listed() -> None:
    async with serving(http_address="0.0.0.0:0") as gateway:
        assert (await ask(gateway, "host: other.lan"))[0] == 200
    async with serving(http_address="0.0.0.0:0", allowed_hosts="box.lan") as gateway:
        assert (await ask(gateway, "host: other.lan"))[0] == 403


@pytest.mark.slow
@pytest.mark.parametrize(
    "origin", [PAGE, "null", "http://localhost:3000", "http://localhost.evil.example", "localhost"]
)
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
async def test_pages_from_elsewhere_are_refused(origin: str, method: str) -> None:
    async with serving() as gateway:
        head = f"host: localhost:8000\norigin: {origin}\ncontent-type: application/json"
        head += "\naccess-control-request-method: POST" if method == "OPTIONS" else ""
        status, headers, content = await ask(gateway, head, method)
        assert status == 403
        assert CORS not in headers
        assert "gateway.allowed_origins" in error_of(content)["message"]


async def test_a_handshake_of_a_page_from_elsewhere_is_refused() -> None:
    async with serving() as gateway:
        key = "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ=="
        upgrade = f"connection: upgrade\nupgrade: websocket\nsec-websocket-version: 13\n{key}"
        head = f"host: localhost\norigin: {PAGE}\n{upgrade}"
        status, _, content = await ask(gateway, head, "GET", "/v1/responses")
        assert (status, error_of(content)["param"]) == (403, "origin")


async def test_a_page_of_the_same_origin_may_ask() -> None:
    async with serving() as gateway:
        head = "host: localhost:8000\norigin: http://localhost:8000\ncontent-type: application/json"
        status, headers, _ = await ask(gateway, head)
        assert status == 200
        assert CORS not in headers


@pytest.mark.parametrize(
    ("origin", "host", "same"),
    [
        ("http://a", "a", True),
        ("https://a", "a:443", True),
        ("http://a:80", "A", True),
        ("https://a", "a:80", False),
        ("http://[::1]:8000", "[::1]:8000", True),
        ("http://[::1]", "[::1]:8000", False),
        ("http://a:8000", "a:8001", False),
        ("http://", "", False),
        ("null", "null", False),
    ],
)
def test_same_origins(origin: str, host: str, same: bool) -> None:
    assert is_same_origin(origin, host) is same


@pytest.mark.parametrize(("allowed", "told"), [(PAGE, PAGE), (f"http://b, {PAGE}/", PAGE), ("*", "*")])
async def test_an_allowed_page_is_told_so_in_every_response(allowed: str, told: str) -> None:
    async with serving(allowed_origins=allowed) as gateway:
        head = f"host: localhost\norigin: {PAGE}\ncontent-type: application/json; charset=utf-8"
        for body, path, expected in (
            (body_of(), "/v1/completions", 200),
            (body_of(stream=True), "/v1/completions", 200),
            (b"{", "/v1/completions", 400),
            (body_of(model="no"), "/v1/completions", 404),
            (b"x" * 20_000_000, "/v1/completions", 413),
            (body_of(), "/nothing", 404),
        ):
            status, headers, content = await ask(gateway, head, "POST", path, body)
            assert status == expected
            assert (headers[CORS], headers["vary"]) == (told, "origin")
            assert headers["access-control-expose-headers"] == "*"
            assert content


async def test_a_preflight_of_an_allowed_page_is_answered() -> None:
    async with serving(allowed_origins=PAGE) as gateway:
        head = f"host: localhost\norigin: {PAGE}\naccess-control-request-method: POST\n"
        head += "access-control-request-headers: authorization,content-type,x-stainless-os\n"
        head += "access-control-request-private-network: true"
        status, headers, content = await ask(gateway, head, "OPTIONS")
        assert (status, content) == (200, b"")
        assert headers[CORS] == PAGE
        assert "POST" in headers["access-control-allow-methods"]
        assert headers["access-control-allow-headers"] == "authorization,content-type,x-stainless-os"
        assert headers["access-control-allow-private-network"] == "true"
        assert int(headers["access-control-max-age"]) > 0


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=a", ""]
)
@pytest.mark.parametrize("origin", [PAGE, "http://localhost:8000"])
async def test_a_page_cannot_post_what_browsers_send_without_asking(kind: str, origin: str) -> None:
    async with serving(allowed_origins=PAGE) as gateway:
        head = f"host: localhost:8000\norigin: {origin}\n" + (f"content-type: {kind}" if kind else "")
        status, _, content = await ask(gateway, head)
        assert (status, error_of(content)["code"]) == (415, "unsupported_media_type")
        assert "application/json" in error_of(content)["message"]


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "text/plain"])
async def test_curl_need_not_name_the_kind_of_its_body(kind: str) -> None:
    async with serving() as gateway:
        assert (await ask(gateway, f"host: localhost\ncontent-type: {kind}"))[0] == 200


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("allowed_hosts", "http://a"),
        ("allowed_hosts", "a:8000"),
        ("allowed_origins", "a"),
        ("allowed_origins", "http://a/b"),
    ],
)
def test_what_is_no_host_or_origin_stops_the_start(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=name):
        load(GatewaySettings, "gateway", [f"--{name.replace('_', '-')}", value], {})


@pytest.mark.parametrize("heads", ["host: localhost\nhost: evil.example", "host: evil.example\nhost: localhost"])
async def test_two_hosts_are_refused(heads: str) -> None:
    async with serving() as gateway:
        status, _, content = await ask(gateway, heads)
        assert (status, error_of(content)["param"]) == (400, "host")


async def test_a_request_without_a_host_is_refused() -> None:
    async with serving() as gateway:
        status, _, content = await ask(gateway, "x: y")
        assert (status, error_of(content)["param"]) == (400, "host")
