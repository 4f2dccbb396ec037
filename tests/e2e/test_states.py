"""Random models that keep states beside keys and values answer chats through the five services."""

import json
import threading
from collections.abc import Iterator
from typing import Any

import httpx2
import openai
import pytest
from tests.harness.running_platform import RunningPlatform, running_platform
from tests.harness.state_models import STATE_MODELS, save_state_model

TOKENS = 250
TOOL: Any = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"enum": ["Ulm", "Bonn"]}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}
ONE_CALL: dict[str, Any] = {"tools": [TOOL], "tool_choice": "required", "parallel_tool_calls": False}
MESSAGES: list[Any] = [{"role": "user", "content": "Will it rain in Ulm? " * 8}]


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPlatform]:
    root = tmp_path_factory.mktemp("models")
    sources = [f"{name}={save_state_model(root / name, name)}" for name in STATE_MODELS]
    with running_platform(tmp_path_factory.mktemp("platform"), sources) as running:
        yield running


@pytest.fixture
def sdk(platform: RunningPlatform) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{platform.http}/v1", api_key="none", max_retries=0) as client:
        yield client


def ask(sdk: openai.OpenAI, model: str, **fields: Any) -> Any:
    usual: dict[str, Any] = {"messages": MESSAGES, "max_tokens": TOKENS, "temperature": 0}
    return sdk.chat.completions.create(model=model, **usual | {"extra_body": {"thinking_token_budget": 5}} | fields)


@pytest.mark.parametrize("model", STATE_MODELS)
def test_a_stream_says_what_the_whole_answer_says(sdk: openai.OpenAI, model: str) -> None:
    whole = ask(sdk, model, **ONE_CALL).choices[0]
    (call,) = whole.message.tool_calls
    assert (whole.finish_reason, call.function.name) == ("tool_calls", "weather")
    assert json.loads(call.function.arguments)["city"] in ("Ulm", "Bonn")
    reasoning, arguments = "", ""
    for chunk in ask(sdk, model, **ONE_CALL, stream=True):
        delta = chunk.choices[0].delta
        reasoning += getattr(delta, "reasoning", None) or ""
        arguments += "".join(each.function.arguments or "" for each in delta.tool_calls or [])
    assert arguments == call.function.arguments
    assert reasoning == (getattr(whole.message, "reasoning", None) or "")
    assert bool(reasoning) == (model != "lfm2")


@pytest.mark.parametrize("model", STATE_MODELS)
def test_a_second_turn_begins_behind_the_first(sdk: openai.OpenAI, model: str) -> None:
    first = ask(sdk, model, max_tokens=40)
    said = {"role": "assistant", "content": first.choices[0].message.content or "Yes."}
    followed = ask(sdk, model, messages=[*MESSAGES, said, {"role": "user", "content": "And in Bonn?"}], max_tokens=5)
    assert followed.usage.prompt_tokens_details.cached_tokens > 0


class Reader(threading.Thread):
    """Reads the stream of one model."""

    def __init__(self, http: str, model: str) -> None:
        super().__init__()
        self.url = f"{http}/v1/completions"
        self.body = {"model": model, "prompt": "Rain falls", "max_tokens": TOKENS, "temperature": 0}
        self.body |= {"ignore_eos": True, "return_token_ids": True}
        self.found: list[int] = []
        self.is_moving = threading.Event()

    def whole(self) -> list[int]:
        """The tokens of the same request, not streamed."""
        answer = httpx2.post(self.url, json=self.body, timeout=60).json()
        return list(answer["choices"][0]["token_ids"])

    def run(self) -> None:
        with httpx2.stream("POST", self.url, json=self.body | {"stream": True}, timeout=60) as answer:
            for line in answer.iter_lines():
                if line.startswith("data: {"):
                    self.found += json.loads(line[6:])["choices"][0]["token_ids"]
                    if len(self.found) > 20:
                        self.is_moving.set()


def test_killed_workers_change_no_token(platform: RunningPlatform) -> None:
    readers = [Reader(platform.http, model) for model in STATE_MODELS]
    wanted = [reader.whole() for reader in readers]
    for reader in readers:
        reader.start()
    for reader in readers:
        assert reader.is_moving.wait(30)
    workers = [each["name"] for each in platform.describe()["services"] if each["name"].startswith("worker")]
    assert len(workers) == len(STATE_MODELS)
    for worker in workers:
        platform.kill(worker)
    for reader in readers:
        reader.join(60)
        assert not reader.is_alive()
    assert [len(reader.found) for reader in readers] == [TOKENS] * len(STATE_MODELS)
    assert [reader.found for reader in readers] == wanted
    for worker in workers:
        platform.wait_until_restarted(worker, 1)
