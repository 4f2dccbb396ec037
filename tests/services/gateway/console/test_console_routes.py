"""The console over HTTP: who gets the page, its headers, and files that are asked for again."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from headrace.access.key_file import KeyFile
from headrace.gateway.access.gate import Gate
from headrace.gateway.access.key_ring import KeyRing
from headrace.gateway.config import GatewaySettings
from headrace.gateway.console.console_files import ConsoleFiles
from headrace.gateway.console.console_routes import ConsoleRoutes
from headrace.gateway.routes import Routes

pytestmark = pytest.mark.anyio
BROWSER = {"accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
Send = Callable[..., Awaitable[httpx2.Response]]


@pytest.fixture
def send(tmp_path: Path) -> Send:
    """Sends to a gateway that asks for keys."""
    file = KeyFile(tmp_path / "keys.json")
    file.create("first")
    routes = Routes(GatewaySettings(), [], Gate(KeyRing(file.path)), console=ConsoleRoutes())

    async def sent(method: str, path: str, **options: Any) -> httpx2.Response:
        app = httpx2.ASGITransport(app=routes)
        async with httpx2.AsyncClient(transport=app, base_url="http://localhost") as client:
            return await client.request(method, path, **options)

    return sent


async def test_a_browser_gets_the_page_and_all_others_the_endpoints(send: Send) -> None:
    page = await send("GET", "/", headers=BROWSER)
    assert page.status_code == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.text.startswith("<!doctype html>")
    assert (await send("GET", "/console")).content == page.content
    for accept in ("*/*", "application/json", ""):
        listed = await send("GET", "/", headers={"accept": accept})
        assert listed.json()["name"] == "headrace"
        assert "GET /console" in listed.json()["endpoints"]
        assert listed.headers["vary"] == page.headers["vary"] == "accept"


async def test_both_reasons_for_another_answer_are_named(send: Send) -> None:
    page = await send("GET", "/", headers=BROWSER | {"origin": "http://localhost"})
    assert page.headers["vary"] == "accept, origin"


@pytest.mark.parametrize("name", ConsoleFiles().names)
async def test_every_file_needs_no_key_and_has_the_headers(send: Send, name: str) -> None:
    answer = await send("GET", f"/console/{name}")
    assert answer.status_code == 200
    assert answer.headers["content-security-policy"] == POLICY
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == "no-cache"
    assert "server-timing" not in answer.headers
    kinds = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
    assert answer.headers["content-type"].startswith(kinds[name.rpartition(".")[2]])


@pytest.mark.parametrize("form", ["{}", "W/{}", '"other", {}'])
async def test_what_is_the_same_is_not_sent_again(send: Send, form: str) -> None:
    first = await send("GET", "/console/app.js")
    again = await send("GET", "/console/app.js", headers={"if-none-match": form.format(first.headers["etag"])})
    assert again.status_code == 304
    assert again.content == b""
    assert "content-length" not in again.headers
    assert again.headers["etag"] == first.headers["etag"]
    assert again.headers["content-security-policy"] == POLICY
    other = await send("GET", "/console/app.js", headers={"if-none-match": '"other"'})
    assert other.content == first.content


@pytest.mark.parametrize(
    "path", ["/console/", "/console/index.html", "/console/nothing.js", "/console/%2e%2e/config.py", "/console//app.js"]
)
async def test_nothing_else_is_there(send: Send, path: str) -> None:
    answer = await send("GET", path)
    assert answer.status_code == (401 if path == "/console/" else 404)
    assert "error" in answer.json()


async def test_the_files_are_only_read(send: Send) -> None:
    for method in ("POST", "PUT", "DELETE"):
        assert (await send(method, "/console/app.js")).status_code == 405
