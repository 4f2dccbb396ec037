"""The filter on a whole platform: answers, streams, every API, inputs, and what would show what it hides."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
from tests.harness.running_platform import RunningPlatform, running_platform

MODEL = "headrace-demo"
QUESTION: list[Any] = [{"role": "user", "content": "Who are you?"}]
FILTERS = '[default]\nwords = ["tiny model"]\npersonal = ["email", "card"]\naction = "ACTION"\n'


@pytest.fixture(scope="module", params=["mask", "block"])
def filtering(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A platform whose model says words that its filter hides, and what the filter does about them."""
    folder: Path = tmp_path_factory.mktemp("filter")
    (folder / "filters.toml").write_text(FILTERS.replace("ACTION", request.param))
    config = folder / "headrace.toml"
    config.write_text(f'[gateway]\nfilters_file = "{folder}/filters.toml"\n')
    with running_platform(folder / "state", ["--config", str(config)]) as platform:
        yield platform, request.param


def chat(platform: RunningPlatform, **fields: Any) -> httpx2.Response:
    body = {"model": MODEL, "messages": QUESTION, "temperature": 0, "max_tokens": 60} | fields
    return httpx2.post(f"{platform.http}/v1/chat/completions", json=body, timeout=60)


def test_no_api_shows_what_is_hidden(filtering: tuple[RunningPlatform, str]) -> None:
    import anthropic  # takes two seconds, in each process that collects the tests

    platform, action = filtering
    choice = chat(platform).json()["choices"][0]
    whole = choice["message"]["content"]
    assert "tiny model" not in whole
    assert ("[word]" in whole) == (action == "mask")
    assert choice["finish_reason"] == ("stop" if action == "mask" else "content_filter")
    with openai.OpenAI(base_url=f"{platform.http}/v1", api_key="none") as sdk:
        stream = sdk.chat.completions.create(model=MODEL, messages=QUESTION, temperature=0, max_tokens=60, stream=True)
        assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == whole
        response = sdk.responses.create(model=MODEL, input="Who are you?", temperature=0, max_output_tokens=60)
    assert response.output_text == whole
    assert response.status == ("completed" if action == "mask" else "incomplete")
    with anthropic.Anthropic(base_url=platform.http, api_key="none") as other:
        message = other.messages.create(model=MODEL, messages=QUESTION, max_tokens=60, extra_body={"temperature": 0})
    assert message.content[0].text == whole
    assert message.stop_reason == ("end_turn" if action == "mask" else "refusal")


def test_token_ids_and_logprobs_do_not_give_it_away(filtering: tuple[RunningPlatform, str]) -> None:
    platform, _ = filtering
    choice = chat(platform, return_token_ids=True).json()["choices"][0]
    assert set(choice["token_ids"]) == {-1}
    refused = chat(platform, logprobs=True)
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "logprobs"


def test_inputs_are_filtered_too(filtering: tuple[RunningPlatform, str]) -> None:
    platform, action = filtering
    answer = chat(platform, messages=[{"role": "user", "content": "My card is 4111 1111 1111 1111"}])
    if action == "block":
        assert answer.status_code == 400
        assert answer.json()["error"]["code"] == "content_filter"
        assert "card" in answer.json()["error"]["message"]
    else:
        assert answer.status_code == 200
    ids = {"model": MODEL, "prompt": [5, 6, 7], "max_tokens": 3}
    refused = httpx2.post(f"{platform.http}/v1/completions", json=ids, timeout=60)
    assert refused.json()["error"]["code"] == "content_filter"


def test_findings_are_counted_and_never_logged(filtering: tuple[RunningPlatform, str]) -> None:
    platform, action = filtering
    assert chat(platform, messages=[{"role": "user", "content": "Write to jane@example.com"}]).status_code
    text = httpx2.get(f"{platform.http}/metrics").text
    assert f'headrace_filter_findings_total{{action="{action}",detector="email"}}' in text
    logs = "".join(path.read_text(errors="replace") for path in (platform.state_dir / "logs").iterdir())
    assert "jane@example.com" not in logs
    assert "tiny model" not in logs


def test_moderations_tell_what_it_would_find(filtering: tuple[RunningPlatform, str]) -> None:
    platform, _ = filtering
    with openai.OpenAI(base_url=f"{platform.http}/v1", api_key="none") as sdk:
        found = sdk.moderations.create(input=["a tiny model", "hello"])
    first, second = (json.loads(result.model_dump_json()) for result in found.results)
    assert first["flagged"]
    assert first["categories"]["word"]
    assert not second["flagged"]
