"""A reasoning model: reasoning is reported apart from the answer, and stays within the client's budget."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import openai
import pytest
from tests.harness.running_platform import RunningPlatform, running_platform

import headrace.demo_model
from headrace.v1 import inference_pb2, inference_pb2_grpc
from headrace.v1.tokenizer_pb2 import ChatMessage

MODEL = "thinker"
TEMPLATE = (
    "{% for message in messages %}{{ message.role }}: {{ message.content.split('</think>')[-1] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: <think>{% endif %}"
)
MESSAGES: list[Any] = [{"role": "user", "content": "What is paged attention?"}]


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPlatform]:
    folder = tmp_path_factory.mktemp("models") / MODEL
    shutil.copytree(Path(headrace.demo_model.__file__).parent / "checkpoint", folder)
    config = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps(config | {"chat_template": TEMPLATE}))
    with running_platform(tmp_path_factory.mktemp("thinker"), [f"{MODEL}={folder}"]) as running:
        yield running


@pytest.fixture
def sdk(platform: RunningPlatform) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{platform.http}/v1", api_key="none", max_retries=0) as client:
        yield client


@pytest.mark.parametrize("temperature", [0, 1])
@pytest.mark.parametrize("budget", [0, 7])
def test_reasoning_ends_at_its_budget(sdk: openai.OpenAI, budget: int, temperature: float) -> None:
    def answer(**fields: Any) -> Any:
        return sdk.chat.completions.create(
            model=MODEL, messages=MESSAGES, max_tokens=60, temperature=temperature, seed=3, extra_body=fields
        )

    free = answer()
    assert free.choices[0].message.reasoning
    assert not free.choices[0].message.content
    limited = answer(thinking_token_budget=budget)
    choice = limited.choices[0]
    assert choice.message.content
    reasoning = getattr(choice.message, "reasoning", None) or ""
    assert free.choices[0].message.reasoning.startswith(reasoning)
    assert bool(reasoning) == bool(budget)


def test_reasoning_and_a_schema(sdk: openai.OpenAI) -> None:
    schema = {
        "type": "object",
        "properties": {"ok": {"type": "boolean"}},
        "required": ["ok"],
        "additionalProperties": False,
    }
    answer: Any = sdk.chat.completions.create(
        model=MODEL,
        messages=MESSAGES,
        max_tokens=200,
        temperature=0,
        response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": schema}},
        extra_body={"thinking_token_budget": 9},
    )
    message = answer.choices[0].message
    assert message.reasoning
    assert isinstance(json.loads(message.content)["ok"], bool)


def test_anthropic_and_grpc_know_it_too(platform: RunningPlatform) -> None:
    import anthropic  # takes two seconds, in each process that collects the tests

    with anthropic.Anthropic(base_url=platform.http, api_key="none", max_retries=0) as client:
        message = client.messages.create(
            model=MODEL,
            messages=MESSAGES,
            max_tokens=40,
            extra_body={"temperature": 0},
            thinking={"type": "enabled", "budget_tokens": 7},
        )
    assert [block.type for block in message.content] == ["thinking", "text"]
    options = inference_pb2.GenerationOptions(max_reasoning_token_count=7)
    options.sampling_params.max_token_count = 40
    options.sampling_params.temperature = 0
    said = [ChatMessage(role="user", content=MESSAGES[0]["content"])]
    with grpc.insecure_channel(platform.grpc) as channel:
        stub = inference_pb2_grpc.InferenceServiceStub(channel)
        result = stub.Chat(inference_pb2.ChatRequest(model=MODEL, messages=said, options=options), timeout=30).result
    assert (result.reasoning, result.text) == (message.content[0].thinking, message.content[1].text)
