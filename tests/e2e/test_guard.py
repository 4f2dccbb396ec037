"""A guard model on a whole platform: what it calls unsafe is not answered, not shown, and not let through untested."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.harness.running_platform import RunningPlatform, running_platform

from headrace.access.key_file import KeyFile

MODEL = "headrace-demo"
SAFE, UNSAFE = "What is paged attention?", "Who are you?"
TENANTS = {"acme": "input = true\noutput = false", "zeta": "input = false\noutput = true", "away": "input = true"}


def verdict_of(platform: RunningPlatform, *contents: str) -> str:
    """Returns what the model says first of a conversation, which a guard takes for its verdict."""
    roles = ("user", "assistant")
    messages = [{"role": role, "content": content} for role, content in zip(roles, contents, strict=False)]
    body = {"model": MODEL, "messages": messages, "temperature": 0, "max_tokens": 32}
    answer = httpx2.post(f"{platform.http}/v1/chat/completions", json=body, timeout=60)
    return str(answer.json()["choices"][0]["message"]["content"])


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, demo_platform: RunningPlatform) -> Iterator[Any]:
    """A platform whose guard calls unsafe what the bundled model answers UNSAFE with, and a key for each tenant."""
    verdict = verdict_of(demo_platform, UNSAFE)[:20]
    assert not verdict_of(demo_platform, SAFE).startswith(verdict)
    folder: Path = tmp_path_factory.mktemp("guard")
    tables = []
    for tenant, sides in TENANTS.items():
        model = "nobody" if tenant == "away" else MODEL
        # The verdict on an answer is read from a conversation that ends with it: any will do here.
        unsafe = "." if tenant == "zeta" else f"^{verdict}"
        tables.append(f'[{tenant}.guard]\nmodel = "{model}"\nunsafe = {json.dumps(unsafe)}\n{sides}\n')
    (folder / "filters.toml").write_text("\n".join(tables))
    keys = {tenant: KeyFile(folder / "keys.json").create(tenant, tenant=tenant)[0].text for tenant in TENANTS}
    config = folder / "headrace.toml"
    config.write_text(f'[gateway]\nfilters_file = "{folder}/filters.toml"\nkeys_file = "{folder}/keys.json"\n')
    with running_platform(folder / "state", ["--config", str(config)]) as platform:
        yield platform, keys


def ask(guarded: Any, tenant: str, question: str, **fields: Any) -> httpx2.Response:
    platform, keys = guarded
    body = {"model": MODEL, "messages": [{"role": "user", "content": question}], "temperature": 0, "max_tokens": 24}
    headers = {"Authorization": f"Bearer {keys[tenant]}"}
    return httpx2.post(f"{platform.http}/v1/chat/completions", json=body | fields, headers=headers, timeout=60)


def test_an_unsafe_prompt_is_refused_and_a_safe_one_answered(guarded: Any) -> None:
    refused, answered = ask(guarded, "acme", UNSAFE), ask(guarded, "acme", SAFE, timings=True)
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "content_filter")
    assert "unsafe" in refused.json()["error"]["message"]
    assert answered.json()["choices"][0]["message"]["content"]
    assert answered.json()["timings"]["stages_ms"]["guard"] > 0


def test_of_an_unsafe_answer_nothing_is_shown(guarded: Any) -> None:
    (choice,) = ask(guarded, "zeta", SAFE).json()["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("", "content_filter")
    stream = ask(guarded, "zeta", SAFE, stream=True).text
    events = [json.loads(line[6:]) for line in stream.splitlines() if line.startswith("data: {")]
    assert "".join(event["choices"][0]["delta"].get("content") or "" for event in events) == ""
    assert events[-1]["choices"][0]["finish_reason"] == "content_filter"


def test_without_a_verdict_nothing_passes(guarded: Any) -> None:
    refused = ask(guarded, "away", SAFE)
    assert refused.status_code == 503
    assert "nobody" in refused.json()["error"]["message"]


def test_token_ids_cannot_be_judged(guarded: Any) -> None:
    platform, keys = guarded
    body = {"model": MODEL, "prompt": [1, 2, 3], "max_tokens": 2}
    headers = {"Authorization": f"Bearer {keys['acme']}"}
    refused = httpx2.post(f"{platform.http}/v1/completions", json=body, headers=headers, timeout=60)
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "prompt")
