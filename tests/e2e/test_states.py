"""Random models that keep states beside keys and values answer chats through the five services."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
from tests.harness.running_platform import RunningPlatform, running_platform
from tests.libs.engine.later_models import LATER_FAMILIES
from tests.libs.engine.tiny_models import make_family
from tokenizers import Tokenizer

from headrace.demo_model import CHECKPOINT

MODELS = ("lfm2", "qwen3_5_multimodal")
TEMPLATE = """\
{%- if tools %}{{ '<|im_start|>system\\n' + (tools | tojson) + CALLS + '<|im_end|>\\n' }}{% endif %}
{%- for message in messages %}
  {{- '<|im_start|>' + message.role + '\\n' + (message.content or '')END }}
  {%- for call in message.tool_calls or [] %}
    {{- '<tool_call>\\n' + (call.function | tojson) + '\\n</tool_call>' }}
  {%- endfor %}
  {{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\nTHINK' }}{% endif %}
"""
XML_CALLS = "'<tool_call>\\n<function=name>\\n<parameter=one>'"
TEMPLATES = {
    "lfm2": TEMPLATE.replace("CALLS", "'Call as <tool_call>'").replace("THINK", "").replace("END", ""),
    "qwen3_5_multimodal": TEMPLATE.replace("CALLS", XML_CALLS)
    .replace("THINK", "<think>\\n")
    .replace("END", ".split('</think>')[-1]"),
}
"""Templates whose models are trained on calls in JSON, and on reasoning and calls in XML."""
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
MESSAGES: list[Any] = [{"role": "user", "content": "Will it rain in Ulm? " * 8}]


def save_model(folder: Path, name: str) -> Path:
    size = Tokenizer.from_file(str(CHECKPOINT / "tokenizer.json")).get_vocab_size()
    settings: dict[str, Any] = {"vocab_size": size, "max_position_embeddings": 2048}
    if nested := LATER_FAMILIES[name].get("text_config"):
        settings["text_config"] = nested | settings
    make_family(folder, name, **settings)
    (folder / "tokenizer.json").write_bytes((CHECKPOINT / "tokenizer.json").read_bytes())
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATES[name]}))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [size - 1]}))
    return folder


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPlatform]:
    root = tmp_path_factory.mktemp("models")
    sources = [f"{name}={save_model(root / name, name)}" for name in MODELS]
    with running_platform(tmp_path_factory.mktemp("platform"), sources) as running:
        yield running


@pytest.fixture
def sdk(platform: RunningPlatform) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{platform.http}/v1", api_key="none", max_retries=0) as client:
        yield client


def ask(sdk: openai.OpenAI, model: str, **fields: Any) -> Any:
    usual: dict[str, Any] = {"messages": MESSAGES, "max_tokens": 400, "temperature": 0}
    return sdk.chat.completions.create(model=model, **usual | {"extra_body": {"thinking_token_budget": 5}} | fields)


@pytest.mark.parametrize("model", MODELS)
def test_a_stream_says_what_the_whole_answer_says(sdk: openai.OpenAI, model: str) -> None:
    whole = ask(sdk, model, tools=[TOOL], tool_choice="required").choices[0]
    (call,) = whole.message.tool_calls
    assert (whole.finish_reason, call.function.name) == ("tool_calls", "weather")
    assert json.loads(call.function.arguments)["city"] in ("Ulm", "Bonn")
    reasoning, arguments = "", ""
    for chunk in ask(sdk, model, tools=[TOOL], tool_choice="required", stream=True):
        delta = chunk.choices[0].delta
        reasoning += getattr(delta, "reasoning", None) or ""
        arguments += "".join(each.function.arguments or "" for each in delta.tool_calls or [])
    assert arguments == call.function.arguments
    assert reasoning == (getattr(whole.message, "reasoning", None) or "")
    assert bool(reasoning) == (model != "lfm2")


@pytest.mark.parametrize("model", MODELS)
def test_a_second_turn_begins_behind_the_first(sdk: openai.OpenAI, model: str) -> None:
    first = ask(sdk, model, max_tokens=40)
    said = {"role": "assistant", "content": first.choices[0].message.content or "Yes."}
    followed = ask(sdk, model, messages=[*MESSAGES, said, {"role": "user", "content": "And in Bonn?"}], max_tokens=5)
    assert followed.usage.prompt_tokens_details.cached_tokens > 0


@pytest.mark.parametrize("model", MODELS)
def test_a_killed_worker_changes_no_token(platform: RunningPlatform, model: str) -> None:
    body: dict[str, Any] = {"model": model, "prompt": "Rain falls", "max_tokens": 400, "temperature": 0}
    body |= {"ignore_eos": True, "return_token_ids": True}
    answer = httpx2.post(f"{platform.http}/v1/completions", json=body, timeout=60)
    wanted = answer.json()["choices"][0]["token_ids"]
    found: list[int] = []
    moving = threading.Event()

    def read() -> None:
        with httpx2.stream(
            "POST", f"{platform.http}/v1/completions", json=body | {"stream": True}, timeout=60
        ) as lines:
            for line in lines.iter_lines():
                if line.startswith("data: {"):
                    found.extend(json.loads(line[6:])["choices"][0]["token_ids"])
                    if len(found) > 20:
                        moving.set()

    reader = threading.Thread(target=read)
    reader.start()
    assert moving.wait(30)
    worker = platform.busy_worker()
    restarts = platform.service(worker)["restarts"]
    platform.kill(worker)
    reader.join(60)
    assert not reader.is_alive()
    assert (len(found), found) == (400, wanted)
    platform.wait_until_restarted(worker, restarts + 1)
