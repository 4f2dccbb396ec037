"""Keys at the door of the REST bridge: who comes in, to which paths, and what the refusals say."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

import httpx2
import pytest
from prometheus_client import CollectorRegistry
from tests.services.gateway.served_bridge import NoTokenizer

from headrace.access.key_file import KeyFile
from headrace.errors import ModelNotFound, Unauthenticated
from headrace.gateway.access.gate import Gate
from headrace.gateway.access.key_ring import KeyRing
from headrace.gateway.api.anthropic.message_routes import MessageRoutes
from headrace.gateway.api.openai.routes.embedding import EmbeddingRoutes
from headrace.gateway.api.openai.routes.generation import GenerationRoutes
from headrace.gateway.api.openai.routes.models import ModelRoutes
from headrace.gateway.api.openai.routes.text import TextRoutes
from headrace.gateway.api.operation.monitoring import MonitoringRoutes
from headrace.gateway.api.operation.usage import UsageRoutes
from headrace.gateway.config import GatewaySettings
from headrace.gateway.fleet.model_facts import ModelFacts
from headrace.gateway.fleet.served.served_names import ServedNames
from headrace.gateway.http.endpoint_group import EndpointGroup
from headrace.gateway.request.ledger import Ledger
from headrace.gateway.routes import Routes

pytestmark = pytest.mark.anyio
MODELS = {name: ModelFacts(name, max_model_length=64) for name in ("a", "b")}
GUARDED = ["/v1/completions", "/v1/chat/completions", "/v1/embeddings", "/tokenize", "/detokenize"]
TRICKS = [
    "/V1/models",
    "//v1/models",
    "/v1//models",
    "/v1/models/",
    "/v1/models/a",
    "/./v1/models",
    "/x/../v1/models",
    "/%2e/v1/models",
    "/health/../v1/models",
    "/health/%2e%2e/v1/models",
    "/health%2f..%2fv1/models",
    "/%76%31/models",
    "/v1/models%00",
    "/v1/models?x=/health",
    "/v1/models;/health",
    "/health/",
    "/metrics/x",
    "/nothing",
]

Send = Callable[..., Awaitable[httpx2.Response]]


async def find(name: str) -> ModelFacts:
    if name not in MODELS:
        raise ModelNotFound(param="model")
    return MODELS[name]


@pytest.fixture
def keys(tmp_path: Path) -> KeyFile:
    made = KeyFile(tmp_path / "keys.json")
    made.create("first")
    return made


def routes(keys: KeyFile) -> Routes:
    settings, ledger = GatewaySettings(), Ledger(8)
    fleet = SimpleNamespace(find=find, models=lambda: MODELS, listed=lambda: list(MODELS.values()), names=ServedNames())
    pipeline: Any = SimpleNamespace(fleet=fleet, encoder=NoTokenizer())
    health: Any = SimpleNamespace(ready=True, report=lambda: {"status": "ready"})
    gate = Gate(KeyRing(keys.path))
    groups: list[EndpointGroup] = [
        GenerationRoutes(settings, pipeline, ledger),
        EmbeddingRoutes(settings, pipeline, ledger),
        TextRoutes(settings, pipeline, ledger),
        MessageRoutes(settings, pipeline, ledger),
        ModelRoutes(pipeline),
        UsageRoutes(None),
        MonitoringRoutes(health, gate, CollectorRegistry()),
    ]
    return Routes(settings, groups, gate)


@pytest.fixture
def send(keys: KeyFile) -> Send:
    async def sent(method: str, path: str, **options: Any) -> httpx2.Response:
        app = httpx2.ASGITransport(app=routes(keys))
        async with httpx2.AsyncClient(transport=app, base_url="http://localhost") as client:
            return await client.request(method, path, **options)

    return sent


def bearer(keys: KeyFile, **fields: Any) -> dict[str, str]:
    return {"authorization": f"Bearer {keys.create('caller', **fields)[0].text}"}


async def test_without_a_key_only_the_open_paths_answer(send: Send) -> None:
    for path in ("/", "/health", "/ready", "/metrics"):
        assert (await send("GET", path)).status_code == 200
    for path in GUARDED:
        refused = await send("POST", path, content=b"{not read")
        assert refused.status_code == 401, path
        assert refused.headers["www-authenticate"] == "Bearer"
        assert refused.json()["error"]["type"] == "authentication_error"
        assert refused.json()["error"]["code"] == "invalid_api_key"
    assert (await send("GET", "/v1/models")).status_code == 401
    assert (await send("GET", "/headrace/usage")).status_code == 401
    assert (await send("GET", "/ready")).json()["keys"] == "1 known"


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "OPTIONS", "get"])
@pytest.mark.parametrize("path", TRICKS)
async def test_no_trick_with_the_path_comes_past_the_key(keys: KeyFile, path: str, method: str) -> None:
    """Clients tidy paths up before they send them, so the application is asked without one."""
    statuses: list[int] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def record(message: Any) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    raw, _, query = path.partition("?")
    scope = {
        "type": "http",
        "method": method,
        "path": unquote(raw),
        "query_string": query.encode(),
        "headers": [(b"host", b"localhost")],
    }
    await routes(keys)(scope, receive, record)
    assert statuses == [401]


@pytest.mark.parametrize("header", ["authorization", "x-api-key"])
async def test_a_key_lets_its_holder_in(send: Send, keys: KeyFile, header: str) -> None:
    key, _ = keys.create("caller")
    shown = await send("GET", "/v1/models", headers={header: key.text})
    assert [model["id"] for model in shown.json()["data"]] == ["a", "b"]


async def test_each_refusal_says_its_cause(send: Send, keys: KeyFile) -> None:
    gone, late = keys.create("gone")[0], bearer(keys, expires=1.0)
    keys.revoke(gone.key_id)
    for headers, cause in (
        ({}, "is needed"),
        ({"authorization": f"Bearer {gone.text}x"}, "not known"),
        ({"x-api-key": gone.text}, "revoked"),
        (late, "expired"),
    ):
        refused = await send("GET", "/v1/models", headers=headers)
        assert refused.status_code == 401
        assert cause in refused.json()["error"]["message"]


async def test_a_scope_is_enough_for_its_paths_only(send: Send, keys: KeyFile) -> None:
    embeds, generates = bearer(keys, scopes=("embed",)), bearer(keys, scopes=("generate",))
    expected = {"/v1/embeddings": [400, 403], "/tokenize": [400, 400], "/detokenize": [400, 400]}
    for path in GUARDED:
        refused = [(await send("POST", path, content=b"{}", headers=key)).status_code for key in (embeds, generates)]
        assert refused == expected.get(path, [403, 400]), path
    body = (await send("POST", "/v1/completions", content=b"{}", headers=embeds)).json()["error"]
    assert (body["type"], body["code"]) == ("permission_error", "permission_denied")


async def test_a_key_sees_and_uses_its_own_models_only(send: Send, keys: KeyFile) -> None:
    key = bearer(keys, models=("b",))
    assert [model["id"] for model in (await send("GET", "/v1/models", headers=key)).json()["data"]] == ["b"]
    assert (await send("GET", "/v1/models/b", headers=key)).status_code == 200
    hidden, missing = [await send("GET", f"/v1/models/{name}", headers=key) for name in ("a", "nothing")]
    assert hidden.status_code == missing.status_code == 404
    assert hidden.text.replace("'a'", "") == missing.text.replace("'nothing'", "")
    for name in ("a", "nothing"):
        refused = await send("POST", "/v1/completions", json={"model": name, "prompt": "x"}, headers=key)
        assert refused.status_code == 403
        assert refused.json()["error"]["param"] == "model"


async def test_a_request_id_or_a_key_brings_no_header_of_its_own(send: Send) -> None:
    for value in (b"a\r\nset-cookie: x=1", b"a b", b"\xc3\xa9", b"x" * 129, b"a\nb"):
        for name in (b"x-request-id", b"x-api-key", b"authorization"):
            answer = await send("GET", "/v1/models", headers=[(name, value)])
            assert answer.status_code == 401
            assert "set-cookie" not in answer.headers
            assert len(answer.headers["x-request-id"]) == 32 or name != b"x-request-id"


def test_who_asked_earlier_has_the_rights_that_the_key_has_now(tmp_path: Path) -> None:
    file = KeyFile(tmp_path / "keys.json")
    _, record = file.create("one", models=("a",))
    ring = KeyRing(file.path)
    gate = Gate(ring)
    assert gate.caller_later(record).may_use("a")
    with pytest.raises(Unauthenticated):
        gate.caller_later(None)
    file.revoke(record.id)
    ring.refresh()
    with pytest.raises(Unauthenticated, match="revoked"):
        gate.caller_later(record)
    assert Gate().caller_later(record).key is None
