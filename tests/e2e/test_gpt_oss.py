"""A random gpt-oss of MXFP4 answers chats through the five services, in channels and with calls of tools."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from tests.harness.running_platform import RunningPlatform, running_platform
from tests.libs.engine.tiny_mxfp4 import make_mxfp4
from tokenizers import AddedToken, Tokenizer

from headrace.demo_model import CHECKPOINT
from headrace.gateway.chat.channels import channel_markers

MODEL = "gpt-oss"
TEMPLATE = """\
{{- '<|start|>system<|message|>Reasoning: ' + (reasoning_effort or 'medium') + '<|end|>' }}
{%- if tools %}{{ '<|start|>developer<|message|>' + (tools | tojson) + '<|end|>' }}{% endif %}
{%- for message in messages %}
  {%- if message.role == 'tool' %}
    {{- '<|start|>functions.weather to=assistant<|channel|>commentary<|message|>' + message.content + '<|end|>' }}
  {%- elif message.tool_calls %}
    {%- if message.thinking %}
      {{- '<|start|>assistant<|channel|>analysis<|message|>' + message.thinking + '<|end|>' }}
    {%- endif %}
    {{- '<|start|>assistant to=functions.' + message.tool_calls[0].function.name }}
    {{- '<|channel|>commentary json<|message|>' + (message.tool_calls[0].function.arguments | tojson) + '<|call|>' }}
  {%- else %}
    {{- '<|start|>' + message.role + '<|message|>' + message.content + '<|end|>' }}
  {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|start|>assistant' }}{% endif %}
"""
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
MESSAGES: list[Any] = [{"role": "user", "content": "Will it rain in Ulm?"}]


def text_tokenizer() -> Tokenizer:
    tokenizer = Tokenizer.from_file(str(CHECKPOINT / "tokenizer.json"))
    tokenizer.add_special_tokens([AddedToken(each, special=True) for each in channel_markers.ALL])
    return tokenizer


END = text_tokenizer().token_to_id(channel_markers.END)


def save_model(folder: Path) -> Path:
    tokenizer = text_tokenizer()
    ends = [tokenizer.token_to_id(each) for each in (channel_markers.RETURN, channel_markers.CALL)]
    size = tokenizer.get_vocab_size()
    make_mxfp4(folder, vocab_size=size, max_position_embeddings=2048, tie_word_embeddings=False, eos_token_id=ends)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE}))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": ends}))
    return folder


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPlatform]:
    folder = save_model(tmp_path_factory.mktemp("models") / MODEL)
    with running_platform(tmp_path_factory.mktemp("platform"), [f"{MODEL}={folder}"]) as running:
        yield running


@pytest.fixture
def sdk(platform: RunningPlatform) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{platform.http}/v1", api_key="none", max_retries=0) as client:
        yield client


def ask(sdk: openai.OpenAI, **fields: Any) -> Any:
    """Asks a model that would say much before it calls or answers, and ends each message soon."""
    usual: dict[str, Any] = {"model": MODEL, "messages": MESSAGES, "max_tokens": 400, "temperature": 0}
    settings = usual | {"logit_bias": {str(END): 9}, "extra_body": {"thinking_token_budget": 5}} | fields
    return sdk.chat.completions.create(**settings)


def test_a_call_is_read_and_its_result_is_taken(sdk: openai.OpenAI) -> None:
    answer = ask(sdk, tools=[TOOL], tool_choice="required").choices[0]
    (call,) = answer.message.tool_calls
    assert (answer.finish_reason, call.function.name) == ("tool_calls", "weather")
    assert json.loads(call.function.arguments)["city"] in ("Ulm", "Bonn")
    assert "<|" not in (answer.message.content or "")
    said = {"role": "assistant", "content": "", "reasoning": "It is far.", "tool_calls": [call.model_dump()]}
    result = {"role": "tool", "tool_call_id": call.id, "content": "Rain."}
    followed = ask(sdk, messages=[*MESSAGES, said, result], tools=[TOOL], max_tokens=5)
    assert followed.usage.completion_tokens == 5


def test_the_answer_has_the_form_that_is_wanted(sdk: openai.OpenAI) -> None:
    schema = {"type": "object", "properties": {"rain": {"type": "boolean"}}, "required": ["rain"]}
    form: Any = {
        "type": "json_schema",
        "json_schema": {"name": "n", "schema": schema | {"additionalProperties": False}},
    }
    message = ask(sdk, response_format=form).choices[0].message
    assert isinstance(json.loads(message.content)["rain"], bool)


def test_a_stream_says_what_the_whole_answer_says(sdk: openai.OpenAI) -> None:
    whole = ask(sdk, tools=[TOOL], tool_choice="required").choices[0].message
    arguments, reasoning, names = "", "", []
    for chunk in ask(sdk, tools=[TOOL], tool_choice="required", stream=True):
        delta = chunk.choices[0].delta
        reasoning += getattr(delta, "reasoning", None) or ""
        for call in delta.tool_calls or []:
            names += [call.function.name] if call.function.name else []
            arguments += call.function.arguments or ""
    assert names == ["weather"]
    assert arguments == whole.tool_calls[0].function.arguments
    assert reasoning == (getattr(whole, "reasoning", None) or "")


def test_a_free_answer_shows_no_marker(sdk: openai.OpenAI) -> None:
    """A random model writes anything, markers included."""
    for seed in range(4):
        message = ask(sdk, max_tokens=60, temperature=1.0, seed=seed, reasoning_effort="high").choices[0].message
        assert "<|message|>" not in (message.content or "")
