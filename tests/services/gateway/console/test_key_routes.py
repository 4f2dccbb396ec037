"""Keys over HTTP: made, listed and revoked by whoever may, and by nobody else."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from headrace.access.key_file import KeyFile
from headrace.gateway.access.gate import Gate
from headrace.gateway.access.key_ring import KeyRing
from headrace.gateway.config import GatewaySettings
from headrace.gateway.console.key_routes import KeyRoutes
from headrace.gateway.routes import Routes

pytestmark = pytest.mark.anyio
PATH = "/headrace/keys"
Send = Callable[..., Awaitable[httpx2.Response]]


@pytest.fixture
def file(tmp_path: Path) -> KeyFile:
    return KeyFile(tmp_path / "keys.json")


@pytest.fixture
def admin(file: KeyFile) -> str:
    return file.create("boss", scopes=("admin",))[0].text


@pytest.fixture
def ring(file: KeyFile, admin: str) -> KeyRing:
    return KeyRing(file.path)


@pytest.fixture
def send(file: KeyFile, ring: KeyRing, admin: str) -> Send:
    routes = Routes(GatewaySettings(), [KeyRoutes(file.path)], Gate(ring))

    async def sent(method: str, path: str, key: str = admin, **options: Any) -> httpx2.Response:
        headers = {"authorization": f"Bearer {key}"} if key else {}
        app = httpx2.ASGITransport(app=routes)
        async with httpx2.AsyncClient(transport=app, base_url="http://localhost") as client:
            return await client.request(method, path, headers=headers, **options)

    return sent


async def test_a_key_is_made_and_works_until_it_is_revoked(send: Send, ring: KeyRing) -> None:
    body = {"name": "alice", "tenant": "acme", "scopes": ["embed"], "lifetime_seconds": 60}
    answer = await send("POST", PATH, json=body | {"limits": {"requests_per_minute": 5}})
    assert answer.headers["cache-control"] == "no-store"
    made = answer.json()
    assert made["key"].startswith(f"sk-{made['id']}-")
    ring.refresh()
    record = ring.find(made["key"])
    assert (record.name, record.tenant, record.scopes, record.limits.requests_per_minute) == (
        *("alice", "acme", ("embed",)),
        5,
    )
    assert record.expires is not None
    assert 0 < record.expires - record.created <= 60
    revoked = await send("DELETE", f"{PATH}/{made['id']}")
    assert revoked.json()["state"] == "revoked"
    ring.refresh()
    assert (await send("GET", PATH, key=made["key"])).status_code == 401


async def test_the_list_holds_no_secret(send: Send, admin: str) -> None:
    made = (await send("POST", PATH, json={"name": "alice"})).json()
    listed = await send("GET", PATH)
    assert [(key["name"], key["state"]) for key in listed.json()["data"]] == [("boss", "valid"), ("alice", "valid")]
    assert "digest" not in listed.text
    assert made["key"] not in listed.text
    assert admin not in listed.text


async def test_other_keys_may_nothing(send: Send, file: KeyFile, ring: KeyRing) -> None:
    other = file.create("other")[0].text
    ring.refresh()
    for method, path in (("GET", PATH), ("POST", PATH), ("DELETE", f"{PATH}/{other.split('-')[1]}")):
        assert (await send(method, path, key=other)).status_code == 403
        assert (await send(method, path, key="")).status_code == 401
    assert sorted(record.name for record in file.read().values() if record.is_valid()) == ["boss", "other"]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "name"),
        ({"name": "a", "color": 1}, "color"),
        ({"name": "a", "lifetime_seconds": -1}, "lifetime_seconds"),
        ({"name": "a", "scopes": []}, "scopes"),
        ({"name": "a", "limits": {"concurrency": "many"}}, "limits"),
        ([], None),
    ],
)
async def test_a_body_that_is_wrong_is_explained(send: Send, file: KeyFile, body: Any, param: str | None) -> None:
    answer = await send("POST", PATH, json=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param
    assert len(file.read()) == 1


@pytest.mark.parametrize("fields", [{"name": "a\nb"}, {"name": "a", "scopes": ["root"]}, {"name": "a", "weight": 0}])
async def test_what_no_key_can_be_is_refused(send: Send, file: KeyFile, fields: dict[str, Any]) -> None:
    assert (await send("POST", PATH, json=fields)).status_code == 400
    assert len(file.read()) == 1


async def test_an_unknown_key_cannot_be_revoked(send: Send) -> None:
    assert (await send("DELETE", f"{PATH}/abcdefgh")).status_code == 404


async def test_without_keys_nobody_makes_any() -> None:
    """Anyone who reaches a gateway without keys would otherwise shut all others out."""
    app = httpx2.ASGITransport(app=Routes(GatewaySettings(), [KeyRoutes(None)]))
    async with httpx2.AsyncClient(transport=app, base_url="http://localhost") as client:
        for method, path in (("GET", PATH), ("POST", PATH), ("DELETE", f"{PATH}/abcdefgh")):
            refused = await client.request(method, path)
            assert refused.status_code == 404
            assert "headrace keys create" in refused.json()["error"]["message"]
