"""Holders of the scope admin change what is served, and no one else does."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest

from headrace.access.key_file import KeyFile
from headrace.gateway.access.gate import Gate
from headrace.gateway.access.key_ring import KeyRing
from headrace.gateway.api.operation.models.served_routes import ServedRoutes
from headrace.gateway.config import GatewaySettings
from headrace.gateway.fleet.model_facts import ModelFacts
from headrace.gateway.fleet.served.served_names import ServedNames
from headrace.gateway.routes import Routes
from headrace.served.served_file import FILE_NAME, ServedFile
from headrace.served.served_models import ServedModels

pytestmark = pytest.mark.anyio
BASE = ModelFacts("base")
Follow = Callable[[ServedModels], ServedModels]


def fleet_of(path: Path | None) -> Any:
    models = {"base": BASE}
    return SimpleNamespace(
        models=lambda: models, listed=lambda: list(models.values()), names=ServedNames(None, path), workers=[]
    )


@asynccontextmanager
async def client(path: Path | None, gate: Gate | None = None, **settings: Any) -> AsyncIterator[httpx2.AsyncClient]:
    made = GatewaySettings(models_file=path, **settings)
    app = httpx2.ASGITransport(app=Routes(made, [ServedRoutes(made, fleet_of(path))], gate or Gate()))
    async with httpx2.AsyncClient(transport=app, base_url="http://localhost") as opened:
        yield opened


@asynccontextmanager
async def following(path: Path, follow: Follow) -> AsyncIterator[None]:
    """Answers changes as a platform does."""

    async def watch() -> None:
        file = ServedFile(path)
        while True:
            if (served := file.read()).applied < served.revision:
                file.change(lambda latest: follow(latest).applying(latest.revision))
            await asyncio.sleep(0.01)

    watching = asyncio.create_task(watch())
    try:
        yield
    finally:
        watching.cancel()


def agreeing(served: ServedModels) -> ServedModels:
    return served.parted() if served.leaving else served


async def test_a_model_is_loaded_named_and_unloaded(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    async with client(path) as http, following(path, agreeing):
        loaded = await http.post(
            "/headrace/models", json={"name": "org/new", "source": "/models/new", "draft": "small"}
        )
        assert (loaded.status_code, loaded.json()) == (200, {"name": "org/new", "state": "served"})
        named = await http.put("/headrace/aliases/gpt-4o", json={"model": "base"})
        assert (named.status_code, named.json()) == (200, {"name": "gpt-4o", "model": "base"})
        served = ServedFile(path).read()
        assert (served.models["org/new"].source, served.models["org/new"].draft) == ("/models/new", "small")
        assert dict(served.aliases) == {"gpt-4o": "base"}
        dropped = await http.delete("/headrace/aliases/gpt-4o")
        assert (dropped.status_code, ServedFile(path).read().aliases) == (200, {})
        shown = (await http.get("/headrace/models")).json()
        assert shown["models"] == [{"name": "base", "adapter_of": None, "pinned": None}]
        assert shown["loading"] == ["org/new"]
        gone = await http.delete("/headrace/models/base")
        assert (gone.status_code, ServedFile(path).read().unloaded) == (200, {"base"})


async def test_a_model_is_pinned_and_unpinned(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    async with client(path) as http, following(path, agreeing):
        for method, is_pinned in (("PUT", True), ("DELETE", False)):
            answer = await http.request(method, "/headrace/pins/base")
            assert (answer.status_code, answer.json()) == (200, {"name": "base", "pinned": is_pinned})
            assert ServedFile(path).read().pins == {"base": is_pinned}


async def test_adapters_come_and_go_in_the_words_of_vllm(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    async with client(path) as http, following(path, agreeing):
        body = {"lora_name": "tuned", "lora_path": "/tuned", "load_inplace": False}
        loaded = await http.post("/v1/load_lora_adapter", json=body)
        assert (loaded.status_code, loaded.text) == (200, "Success: LoRA adapter 'tuned' added.")
        assert ServedFile(path).read().adapters["tuned"].model == "base"
        unknown = await http.post("/v1/unload_lora_adapter", json={"lora_name": "other"})
        assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "model_not_found")


async def test_what_the_platform_cannot_do_is_an_error_with_its_reason(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    async with client(path) as http, following(path, lambda served: served.refusing("new", "it has no config.json")):
        refused = await http.post("/headrace/models", json={"name": "new", "source": "/models/new"})
        assert (refused.status_code, refused.json()["error"]["message"]) == (400, "it has no config.json")


async def test_a_platform_that_does_not_answer_in_time_is_said_so(tmp_path: Path) -> None:
    async with client(tmp_path / FILE_NAME) as http:
        body, terms = {"name": "new", "source": "/models/new"}, {"x-headrace-timeout-ms": "50"}
        late = await http.post("/headrace/models", json=body, headers=terms)
        assert (late.status_code, late.json()["error"]["code"]) == (504, "deadline_exceeded")


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/headrace/models", {"name": "../x", "source": "/a"}, 400),
        ("POST", "/headrace/models", {"name": "a"}, 400),
        ("POST", "/headrace/models", {"name": "a", "source": "/a", "adapter_of": "nothing"}, 404),
        ("PUT", "/headrace/aliases/a b", {"model": "base"}, 400),
        ("PUT", "/headrace/aliases/a", {"model": "nothing"}, 404),
        ("DELETE", "/headrace/aliases/nothing", None, 404),
        ("DELETE", "/headrace/models/nothing", None, 404),
        ("PUT", "/headrace/pins/nothing", None, 404),
    ],
)
async def test_bad_input_changes_nothing(tmp_path: Path, method: str, path: str, body: Any, status: int) -> None:
    async with client(tmp_path / FILE_NAME) as http:
        refused = await http.request(method, path, json=body)
        assert refused.status_code == status, refused.text
    assert not (tmp_path / FILE_NAME).exists()


async def test_elsewhere_models_are_chosen_where_workers_are_started() -> None:
    async with client(None) as http:
        refused = await http.post("/headrace/models", json={"name": "a", "source": "/a"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (501, "not_enabled")


async def test_only_holders_of_the_scope_admin_change_what_is_served(tmp_path: Path) -> None:
    path, body = tmp_path / FILE_NAME, {"name": "a", "source": "/a"}
    keys = KeyFile(tmp_path / "keys.json")
    user, _ = keys.create("user")
    admin, _ = keys.create("admin", scopes=["admin"])
    async with client(path, Gate(KeyRing(keys.path)), http_address="0.0.0.0:80") as http, following(path, agreeing):
        for key, status in ((None, 401), (user, 403), (admin, 200)):
            headers = {"authorization": f"Bearer {key.text}"} if key else {}
            assert (await http.post("/headrace/models", json=body, headers=headers)).status_code == status
    async with client(path, http_address="0.0.0.0:80") as http:
        assert (await http.post("/headrace/models", json=body)).status_code == 403
