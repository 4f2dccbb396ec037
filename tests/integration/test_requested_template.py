"""A request may bring its chat template, with a key of the scope admin."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.integration.in_process_platform import Shape, in_process_platform

from headrace import demo_model
from headrace.access.key_file import KeyFile

pytestmark = pytest.mark.anyio
MODEL = "m"
PLAIN = "{% for message in messages %}{{ message.content }}{% endfor %}"
QUESTION = "What is a headrace?"


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A file of keys, and their texts by scope."""
    file = KeyFile(tmp_path_factory.mktemp("keys") / "keys.json")
    scopes = {"generate": ("generate",), "admin": ("generate", "admin")}
    return file.path, {name: file.create(name, scopes=given)[0].text for name, given in scopes.items()}


@pytest.fixture(scope="module")
async def client(
    tmp_path_factory: pytest.TempPathFactory, keys: tuple[Path, dict[str, str]]
) -> AsyncIterator[httpx2.AsyncClient]:
    worker = {"model": MODEL, "engine": "sim"}
    shape = Shape({MODEL: demo_model.CHECKPOINT}, [worker], {"gateway": {"keys_file": keys[0]}})
    async with (
        in_process_platform(shape, tmp_path_factory.mktemp("platform")) as platform,
        httpx2.AsyncClient(base_url=platform.http, timeout=60.0) as opened,
    ):
        yield opened


async def chat(client: httpx2.AsyncClient, key: str, **fields: Any) -> httpx2.Response:
    body = {"model": MODEL, "messages": [{"role": "user", "content": QUESTION}], "max_tokens": 2} | fields
    return await client.post("/v1/chat/completions", json=body, headers={"authorization": f"Bearer {key}"})


async def test_it_replaces_the_models_for_that_request_alone(
    client: httpx2.AsyncClient, keys: tuple[Path, dict[str, str]]
) -> None:
    admin = keys[1]["admin"]
    counted = await client.post(
        "/tokenize",
        json={"model": MODEL, "prompt": QUESTION, "add_special_tokens": False},
        headers={"authorization": f"Bearer {admin}"},
    )
    usual, own, again = [await chat(client, admin, **f) for f in ({}, {"chat_template": PLAIN}, {})]
    counts = [answer.json()["usage"]["prompt_tokens"] for answer in (usual, own, again)]
    assert counts[1] == counted.json()["count"]
    assert counts[0] == counts[2] > counts[1]


async def test_other_keys_are_refused_in_words(client: httpx2.AsyncClient, keys: tuple[Path, dict[str, str]]) -> None:
    answer = await chat(client, keys[1]["generate"], chat_template=PLAIN)
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (403, "chat_template")
    assert "for API keys with the scope admin" in error["message"]
    assert (await chat(client, keys[1]["generate"])).status_code == 200


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{% if %}", "does not compile"),
        ("{{ ''.__class__.__mro__ }}", "refuses the conversation"),
        ("{% for a in range(9999999999) %}x{% endfor %}", "Range too big"),
    ],
)
async def test_a_bad_template_is_the_callers_error(
    client: httpx2.AsyncClient, keys: tuple[Path, dict[str, str]], template: str, words: str
) -> None:
    """And the next request is answered."""
    answer = await chat(client, keys[1]["admin"], chat_template=template)
    assert answer.status_code == 400
    assert words in answer.json()["error"]["message"]
    assert (await chat(client, keys[1]["admin"])).status_code == 200
