"""Embeddings that vLLM computes are those of our own engine."""

import httpx2
import pytest
from tests.harness.running_platform import RunningPlatform


def embedding(platform: RunningPlatform, text: str) -> list[float]:
    body = {"model": "minilm", "input": text}
    return list(httpx2.post(f"{platform.http}/v1/embeddings", json=body, timeout=60).json()["data"][0]["embedding"])


@pytest.mark.parametrize("text", ["Where does the time go?", "word " * 200])
def test_embeddings_point_the_same_way(encoders: tuple[RunningPlatform, RunningPlatform], text: str) -> None:
    theirs, ours = (embedding(platform, text) for platform in encoders)
    assert sum(a * b for a, b in zip(theirs, ours, strict=True)) == pytest.approx(1.0, abs=1e-3)
