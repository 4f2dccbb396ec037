"""A platform whose worker computes with the kernels for GPUs answers as one with those for CPUs, exact."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
from tests.integration.in_process_platform import InProcessPlatform, Shape, in_process_platform
from tests.libs.engine.triton.tiny_quantized import quantize_tiny

from headrace import demo_model

pytestmark = pytest.mark.anyio
USUAL = {"block_count": 64, "max_running_count": 4, "thread_count": 1, "speculation": "off", "exact": True}
MOMENT = 60.0
"""Seconds that the interpreter may take on a busy machine."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def platform(tmp_path: Path) -> AsyncIterator[InProcessPlatform]:
    folder = tmp_path / "model"
    quantize_tiny(folder, "awq", vocab_size=2048, max_position_embeddings=256)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(demo_model.CHECKPOINT / name, folder / name)
    workers = [
        {"model": "cpu", "folder": folder, "packed_folder": None, **USUAL},
        {"model": "gpu", "folder": folder, "kernels": "triton", "max_step_token_count": 16, **USUAL},
    ]
    async with in_process_platform(Shape({"cpu": folder, "gpu": folder}, workers), tmp_path / "platform") as made:
        yield made


async def test_the_same_text_comes_from_the_kernels_for_gpus(platform: InProcessPlatform) -> None:
    texts = {}
    prompts = ["Where does the time go?", "A KV cache holds keys and values."]
    async with httpx2.AsyncClient(base_url=platform.http, timeout=MOMENT) as client:
        for model in ("cpu", "gpu"):
            body = {"model": model, "prompt": prompts, "max_tokens": 5, "temperature": 0, "ignore_eos": True}
            answer = (await client.post("/v1/completions", json=body)).json()
            assert answer["usage"]["completion_tokens"] == 10
            texts[model] = [choice["text"] for choice in answer["choices"]]
    assert texts["gpu"] == texts["cpu"]
    assert all(texts["gpu"])
