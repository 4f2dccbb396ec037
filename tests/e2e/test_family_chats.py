"""Random checkpoints of several families answer chats through the five services, each in the markup of its own."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openai
import pytest
from tests.e2e.test_gpt_oss import MESSAGES, TOOL
from tests.harness.running_platform import RunningPlatform, running_platform
from tests.libs.engine.tiny_models import make_family
from tokenizers import AddedToken, Tokenizer

from headrace.demo_model import CHECKPOINT
from headrace.tokenizer.template.chat_template import ChatTemplate

GLM = """\
{%- if tools %}<|system|>
# Tools
{{ tools | tojson }}
<tool_call>{function-name}
<arg_key>{arg-key-1}</arg_key>
<arg_value>{arg-value-1}</arg_value>
</tool_call>{% endif %}
{%- for m in messages %}<|{{ 'observation' if m.role == 'tool' else m.role }}|>
{%- if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}
{%- for call in m.tool_calls or [] %}
<tool_call>{{ call.function.name }}
{% for name, value in call.function.arguments.items() %}<arg_key>{{ name }}</arg_key>
<arg_value>{{ value if value is string else value | tojson }}</arg_value>
{% endfor %}</tool_call>{% endfor %}
{%- endfor %}
{%- if add_generation_prompt %}<|assistant|>
<think>{% endif %}"""
SMOLLM = """\
<|im_start|>system
{{ '/no_think' if enable_thinking == false else '/think' }}
{%- for tool in tools or [] %}
<tools>{{ tool | tojson }}</tools>
<tool_call>
{"name": <function-name>, "arguments": <args-json-object>}
</tool_call>{% endfor %}<|im_end|>
{%- for m in messages %}
<|im_start|>{{ m.role }}
{{ m.content }}{% for call in m.tool_calls or [] %}<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>{% endfor %}
{%- if add_generation_prompt %}
<|im_start|>assistant
<think>
{% endif %}{# </think> #}"""
DEEPSEEK = """\
{%- for m in messages %}{{ {'user': 'User: ', 'assistant': 'Assistant: '}[m.role] or '' }}{{ m.content }}

{% endfor %}{% if add_generation_prompt %}Assistant:{% endif %}"""
GEMMA = """\
{%- macro written(value) %}
{%- if value is string %}{{ '<|"|>' + value + '<|"|>' }}{% else %}{{ value | tojson }}{% endif %}
{%- endmacro %}
{%- for tool in tools or [] %}<|tool>declaration:{{ tool.function.name }}<tool|>{% endfor %}
{%- for m in messages %}
{%- if m.role == 'tool' %}<|tool_response>response:weather{value:{{ written(m.content) }}}<tool_response|>
{%- else %}<|turn>{{ 'model' if m.role == 'assistant' else m.role }}
{% if m.reasoning_content %}<|channel>thought
{{ m.reasoning_content }}
<channel|>{% endif %}
{%- for call in m.tool_calls or [] %}<|tool_call>call:{{ call.function.name }}{
{%- for name, value in call.function.arguments | dictsort %}{{ name }}:{{ written(value) }}{% endfor -%}
}<tool_call|>{% endfor %}{{ m.content }}<turn|>
{% endif %}{% endfor %}
{%- if add_generation_prompt %}<|turn>model
<|channel>thought
{% endif %}"""

KIMI = """\
{%- if tools %}<|im_system|>tool_declare<|im_middle|>{{ tools | tojson }}<|im_end|>{% endif %}
{%- for m in messages %}<|im_{{ m.role if m.role in ('user', 'assistant') else 'system' }}|>{{ m.role }}<|im_middle|>
{%- if m.role == 'tool' %}## Return of {{ m.tool_call_id }}
{% endif %}{{ m.content }}
{%- if m.tool_calls %}<|tool_calls_section_begin|>
{%- for call in m.tool_calls %}<|tool_call_begin|>{{ call.id }}<|tool_call_argument_begin|>
{{- call.function.arguments | tojson }}<|tool_call_end|>{% endfor %}<|tool_calls_section_end|>{% endif %}<|im_end|>
{%- endfor %}
{%- if add_generation_prompt %}<|im_assistant|>assistant<|im_middle|>{% endif %}"""
HUNYUAN = """\
<|startoftext|>{% if tools %}{{ tools | tojson }}
<tool_calls>[{"name": "function_name", "arguments": {"name": "value"}}]</tool_calls>{% endif %}<|extra_4|>
{%- for m in messages %}
{%- if m.role == 'user' %}{{ m.content }}<|extra_0|>
{%- elif m.role == 'tool' %}<tool_responses>{{ [m.content] | tojson }}</tool_responses><|extra_0|>
{%- else %}<think>
{{ m.reasoning_content }}
</think>
{% if m.tool_calls %}<tool_calls>[
{%- for call in m.tool_calls %}{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
{%- if not loop.last %}, {% endif %}{% endfor %}]</tool_calls>
{%- else %}<answer>
{{ m.content }}
</answer>{% endif %}<|eos|>{% endif %}{% endfor %}
{%- if add_generation_prompt %}<think>
{% endif %}"""


@dataclass(frozen=True)
class ChatFamily:
    """A tiny model, its template and the syntax of calls in it, and the special tokens that it has beside the demo's:
    the last one ends its turn."""

    checkpoint: str
    template: str
    syntax: str
    specials: str
    reasons: bool = True


TURNS = "<|turn> <|tool> <tool|> <|tool_call> <tool_call|> <|tool_response> <tool_response|> <|channel> <channel|>"
CALLS = "<|tool_calls_section_begin|> <|tool_calls_section_end|> <|tool_call_begin|> <|tool_call_argument_begin|>"
FAMILIES = {
    "glm": ChatFamily("glm4_moe", GLM, "glm", "<|system|> <|assistant|> <|observation|> <|user|>"),
    "smollm3": ChatFamily("smollm3", SMOLLM, "hermes", "<|im_start|> <|im_end|>"),
    "deepseek": ChatFamily("deepseek2", DEEPSEEK, "hermes", "<|end_of_text|>", reasons=False),
    "gemma": ChatFamily("gemma4", GEMMA, "gemma4", f'{TURNS} <|"|> <turn|>'),
    "kimi": ChatFamily(
        "deepseek3",
        KIMI,
        "kimi-k2",
        f"{CALLS} <|tool_call_end|> <|im_system|> <|im_user|> <|im_assistant|> <|im_middle|> <|im_end|>",
        reasons=False,
    ),
    "hunyuan": ChatFamily("hunyuan_moe", HUNYUAN, "hunyuan", "<|startoftext|> <|extra_4|> <|extra_0|> <|eos|>"),
}


def save_model(folder: Path, family: ChatFamily) -> Path:
    tokenizer = Tokenizer.from_file(str(CHECKPOINT / "tokenizer.json"))
    specials = family.specials.split()
    tokenizer.add_special_tokens([AddedToken(each, special=True) for each in specials])
    sizes: dict[str, Any] = {"vocab_size": tokenizer.get_vocab_size(), "max_position_embeddings": 2048}
    end = tokenizer.token_to_id(specials[-1])
    inputs = {"vocab_size_per_layer_input": sizes["vocab_size"]} if family.checkpoint == "gemma4" else {}
    make_family(folder, family.checkpoint, **sizes, **inputs, eos_token_id=end)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": family.template}))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [end]}))
    return folder


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPlatform]:
    models = tmp_path_factory.mktemp("models")
    served = [f"{name}={save_model(models / name, family)}" for name, family in FAMILIES.items()]
    with running_platform(tmp_path_factory.mktemp("platform"), served) as running:
        yield running


@pytest.fixture
def sdk(platform: RunningPlatform) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{platform.http}/v1", api_key="none", max_retries=0) as client:
        yield client


def ask(sdk: openai.OpenAI, name: str, **fields: Any) -> Any:
    """Asks a random model, which would reason for ever, and has its reasoning ended soon."""
    usual: dict[str, Any] = {"model": name, "messages": MESSAGES, "max_tokens": 200, "temperature": 0}
    return sdk.chat.completions.create(**usual | {"extra_body": {"thinking_token_budget": 5}} | fields)


@pytest.mark.parametrize("family", FAMILIES.values(), ids=list(FAMILIES))
def test_the_template_tells_the_markup(family: ChatFamily) -> None:
    facts = ChatTemplate(family.template, {}).facts
    assert (facts.tool_call_syntax, bool(facts.reasoning_end)) == (family.syntax, family.reasons)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_call_is_read_and_its_result_is_taken(sdk: openai.OpenAI, name: str) -> None:
    answer = ask(sdk, name, tools=[TOOL], tool_choice="required", parallel_tool_calls=False).choices[0]
    (call,) = answer.message.tool_calls
    assert (answer.finish_reason, call.function.name) == ("tool_calls", "weather")
    assert json.loads(call.function.arguments)["city"] in ("Ulm", "Bonn")
    assert not answer.message.content
    assert bool(getattr(answer.message, "reasoning", None)) == FAMILIES[name].reasons
    said = {"role": "assistant", "content": "", "reasoning": "It is far.", "tool_calls": [call.model_dump()]}
    result = {"role": "tool", "tool_call_id": call.id, "content": "Rain."}
    followed = ask(sdk, name, messages=[*MESSAGES, said, result], tools=[TOOL], max_tokens=3, extra_body={})
    assert followed.usage.completion_tokens <= 3


@pytest.mark.parametrize("name", FAMILIES)
def test_a_stream_says_what_the_whole_answer_says(sdk: openai.OpenAI, name: str) -> None:
    for wanted in ({"max_tokens": 30}, {"tools": [TOOL], "tool_choice": "required", "parallel_tool_calls": False}):
        whole = ask(sdk, name, **wanted).choices[0].message
        content, reasoning, arguments = "", "", ""
        for chunk in ask(sdk, name, **wanted, stream=True):
            delta = chunk.choices[0].delta
            content += delta.content or ""
            reasoning += getattr(delta, "reasoning", None) or ""
            arguments += "".join(call.function.arguments or "" for call in delta.tool_calls or [])
        assert content == (whole.content or "")
        assert reasoning == (getattr(whole, "reasoning", None) or "")
        assert arguments == "".join(call.function.arguments for call in whole.tool_calls or [])
        assert bool(whole.content) != bool(whole.tool_calls)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_answer_has_the_form_that_is_wanted(sdk: openai.OpenAI, name: str) -> None:
    schema = {"type": "object", "properties": {"rain": {"type": "boolean"}}, "required": ["rain"]}
    form: Any = {"name": "n", "schema": schema | {"additionalProperties": False}}
    message = ask(sdk, name, response_format={"type": "json_schema", "json_schema": form}).choices[0].message
    assert isinstance(json.loads(message.content)["rain"], bool)


def test_calls_of_a_model_that_numbers_them_have_its_ids(sdk: openai.OpenAI) -> None:
    (call,) = (
        ask(sdk, "kimi", tools=[TOOL], tool_choice="required", parallel_tool_calls=False).choices[0].message.tool_calls
    )
    assert re.fullmatch(r"functions\.weather:[0-9]{1,4}", call.id)
    said = {"role": "assistant", "content": "", "tool_calls": [call.model_dump()]}
    result = {"role": "tool", "tool_call_id": call.id, "content": "Rain."}
    fields: dict[str, Any] = {"messages": [*MESSAGES, said, result], "tools": [TOOL], "tool_choice": "required"}
    whole = ask(sdk, "kimi", **fields).choices[0].message.tool_calls
    ids = [each.id for each in whole]
    assert len({call.id, *ids}) == 1 + len(ids)
    chunks = [chunk.choices[0].delta.tool_calls or [] for chunk in ask(sdk, "kimi", **fields, stream=True)]
    assert [each.id for calls in chunks for each in calls if each.id] == ids


def test_marks_that_a_model_writes_around_its_answer_are_no_content(sdk: openai.OpenAI) -> None:
    """The grammar has room for them, and where it has, a model that likes angle brackets takes it."""
    schema = {"type": "object", "properties": {"rain": {"type": "boolean"}}, "required": ["rain"]}
    form: Any = {"name": "n", "schema": schema | {"additionalProperties": False}}
    tokenizer = Tokenizer.from_file(str(CHECKPOINT / "tokenizer.json"))
    fields: dict[str, Any] = {
        "response_format": {"type": "json_schema", "json_schema": form},
        "logit_bias": {str(tokenizer.token_to_id("<")): 20},
        "extra_body": {"thinking_token_budget": 5, "return_token_ids": True},
    }
    whole = ask(sdk, "hunyuan", **fields).choices[0]
    written = tokenizer.decode(whole.token_ids)
    content, reasoning = whole.message.content, whole.message.reasoning
    assert re.search(r"<answer>\s*" + re.escape(content) + r"\s*</answer>", written)
    assert isinstance(json.loads(content)["rain"], bool)
    deltas = [chunk.choices[0].delta for chunk in ask(sdk, "hunyuan", **fields, stream=True)]
    assert "".join(delta.content or "" for delta in deltas) == content
    assert "".join(getattr(delta, "reasoning", None) or "" for delta in deltas) == reasoning
