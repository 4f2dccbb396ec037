"""Paths, methods and headers of the REST bridge, without the services behind it."""

from types import SimpleNamespace
from typing import Any

import httpx2
import pytest
from prometheus_client import CollectorRegistry
from tests.services.gateway.served_bridge import NoTokenizer

from headrace.errors import ModelNotFound
from headrace.gateway.access.gate import OPEN_GATE
from headrace.gateway.api.batches.batch_routes import BatchRoutes
from headrace.gateway.api.batches.file_routes import FileRoutes
from headrace.gateway.api.openai.routes.generation import GenerationRoutes
from headrace.gateway.api.openai.routes.models import ModelRoutes
from headrace.gateway.api.operation.monitoring import MonitoringRoutes
from headrace.gateway.config import GatewaySettings
from headrace.gateway.fleet.model_facts import ModelFacts
from headrace.gateway.fleet.served.served_names import ServedNames
from headrace.gateway.request.ledger import Ledger
from headrace.gateway.routes import Routes

pytestmark = pytest.mark.anyio


async def find_model(name: str) -> ModelFacts:
    if name != "org/name":
        raise ModelNotFound(param="model")
    return ModelFacts(name, max_model_length=64)


async def send(method: str, path: str, **options: Any) -> httpx2.Response:
    settings = GatewaySettings()
    pipeline: Any = SimpleNamespace(fleet=SimpleNamespace(find=find_model, names=ServedNames()), encoder=NoTokenizer())
    generation = GenerationRoutes(settings, pipeline, Ledger(8))
    health: Any = SimpleNamespace(ready=True)
    app = Routes(
        settings, [generation, ModelRoutes(pipeline), MonitoringRoutes(health, OPEN_GATE, CollectorRegistry())]
    )
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://localhost") as client:
        return await client.request(method, path, **options)


async def test_a_model_whose_name_has_a_slash() -> None:
    assert (await send("GET", "/v1/models/org/name")).json()["id"] == "org/name"
    assert (await send("GET", "/v1/models/org%2Fname")).json()["id"] == "org/name"
    assert (await send("GET", "/v1/models/org")).json()["error"]["code"] == "model_not_found"


async def test_a_model_takes_the_methods_that_the_list_takes() -> None:
    assert (await send("HEAD", "/v1/models/org/name")).status_code == 200
    refused = await send("POST", "/v1/models/org/name")
    assert refused.headers["allow"] == (await send("POST", "/v1/models")).headers["allow"] == "GET"


@pytest.mark.parametrize("given", [b"\xb2", b"1" * 5000, b"0", b"-1", b"1.5", b"999999999"])
async def test_a_timeout_that_is_no_number_is_the_clients_mistake(given: bytes) -> None:
    headers = [(b"x-headrace-timeout-ms", given)]
    response = await send("POST", "/v1/completions", json={"model": "org/name", "prompt": "x"}, headers=headers)
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "x-headrace-timeout-ms"


async def test_without_a_folder_files_and_batches_say_what_to_set() -> None:
    settings = GatewaySettings()
    app = Routes(settings, [FileRoutes(settings, None), BatchRoutes(settings, None)])
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://localhost") as client:
        for path in ("/v1/files", "/v1/files/file-x/content", "/v1/batches"):
            answer = await client.get(path)
            assert answer.status_code == 501, path
            assert "gateway.files_folder" in answer.json()["error"]["message"]
