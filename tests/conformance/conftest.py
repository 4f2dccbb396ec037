"""A platform in this process for each file of conformance: the bundled model, and an encoder."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.conformance.case import ENCODER, MODEL
from tests.grpc_leftovers import ANYIO_BACKEND
from tests.integration.in_process_platform import InProcessPlatform, Shape, in_process_platform

from headrace import demo_model


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return ANYIO_BACKEND


@pytest.fixture(scope="module")
async def platform(tmp_path_factory: pytest.TempPathFactory, minilm: Path) -> AsyncIterator[InProcessPlatform]:
    models = {MODEL: demo_model.CHECKPOINT, ENCODER: minilm}
    workers = [{"model": name, "folder": folder, "thread_count": 1} for name, folder in models.items()]
    shape = Shape(models, workers)
    async with in_process_platform(shape, tmp_path_factory.mktemp("conformance")) as made:
        yield made


@pytest.fixture
async def client(platform: InProcessPlatform) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=platform.http, timeout=30) as made:
        yield made
