"""Facts of chat templates, and conversations with tools in templates that know them and that do not."""

import json
import tracemalloc

import pytest

from headrace.domain.conversation import Conversation
from headrace.domain.message import Message
from headrace.domain.tool_call import ToolCall
from headrace.gateway.chat.syntax.call_syntax import SYNTAXES
from headrace.tokenizer.template.chat_template import ChatTemplate
from headrace.tokenizer.template.written_calls import answer_with_calls

TOOL = {"type": "function", "function": {"name": "now", "description": "Tells the time", "parameters": {}}}
PLAIN = (
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}{% if add_generation_prompt %}[answer]{% endif %}"
)
WITH_TOOLS = (
    "{% for tool in tools or [] %}{{ tool | tojson }}{% endfor %}{% for m in messages %}[{{ m.role }}]{{ m.content }}"
    "{% for c in m.tool_calls or [] %}SYNTAX{{ c.id }}:{{ c.function.name }}({{ c.function.arguments.city }})"
    "{% endfor %}"
    "{% if m.tool_call_id %}={{ m.tool_call_id }}{% endif %}{% endfor %}"
)
CONVERSATION = Conversation(
    messages=(
        Message("developer", "Be brief."),
        Message("user", "Time?"),
        Message("assistant", "", tool_calls=(ToolCall("call_1", "now", '{"city": "Ulm"}'),)),
        Message("tool", "noon", tool_call_id="call_1"),
    ),
    tools=(TOOL,),
)


@pytest.mark.parametrize(
    ("source", "syntax"),
    [
        ('<tool_call>\\n{"name": <function-name>', "hermes"),
        ('<|start_header_id|>ipython {"name": x, "parameters": y}', "llama3"),
        ("[AVAILABLE_TOOLS] [TOOL_CALLS] [", "mistral"),
        ("[TOOL_CALLS]name[ARGS]{", "mistral-args"),
        ("<tool_call>\\n<function=f>\\n<parameter=p>", "qwen-xml"),
        ("<tool_call>f\\n<arg_key>a</arg_key>\\n<arg_value>b</arg_value>", "glm"),
        ("respond only with <|tool_call|> followed by a JSON list of tools used", "granite"),
        ('<tool_calls>[{"name": "f", "arguments": {}}]</tool_calls>', "hunyuan"),
        (
            "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{}",
            "kimi-k2",
        ),
        ('<minimax:tool_call>\\n<invoke name="f">\\n<parameter name="p">', "minimax"),
        ("<seed:tool_call>\\n<function=f>\\n<parameter=p>", "seed"),
        ("<|tool_call>call:f{a:1}<tool_call|>", "gemma4"),
        ("List of tools: <|tool_list_start|>[", "lfm2"),
        ("List of tools: [", "lfm2"),
        ("[func_name1(params_name1=params_value1)]", "pythonic"),
        ("<｜tool▁calls▁begin｜>function<｜tool▁sep｜>f\\n```json", "deepseek-v3"),
        ("<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{", "deepseek-v3.1"),
        ("some form that nobody knows", "hermes"),
    ],
)
def test_the_syntax_of_calls_is_found(source: str, syntax: str) -> None:
    template = ChatTemplate("{% if tools %}{{ '" + source + "' }}{% endif %}", {})
    assert template.facts.tool_call_syntax == syntax
    assert syntax in SYNTAXES


A13B = "{{ '<|startoftext|>' + messages[0].content + '<|extra_4|><think>\\n\\n</think>\\n' }}"
SMALL_HUNYUAN = "{{ '<｜hy_place▁holder▁no▁3｜><｜hy_User｜>' + messages[0].content + '<｜hy_Assistant｜></think>' }}"
MORE_TOOLS = "{% if tools %}{{ '<tool_calls>[' }}{% endif %}"
OWN_TOOLS = "{% if tools %}{{ tools }}{% endif %}"


@pytest.mark.parametrize("source", [A13B, A13B + MORE_TOOLS, SMALL_HUNYUAN, SMALL_HUNYUAN + OWN_TOOLS])
def test_models_that_put_marks_around_their_answers_are_known(source: str) -> None:
    facts = ChatTemplate(source, {}).facts
    assert SYNTAXES[facts.tool_call_syntax].answer_marks == ("<answer>", "</answer>")
    assert SYNTAXES[facts.tool_call_syntax].marker == ("<tool_calls>" if MORE_TOOLS in source else "<tool_call>")
    assert facts.reasoning_end == "</think>"


def test_marks_that_a_template_only_talks_of_are_the_client_s() -> None:
    source = "{{ 'Write <think>, </think>, <answer>, the answer, </answer>' + messages[0].content }}"
    assert SYNTAXES[ChatTemplate(source, {}).facts.tool_call_syntax].answer_marks == ("", "")


def test_the_markers_of_reasoning_are_found() -> None:
    facts = ChatTemplate("{{ messages[0].content.split('</think>')[-1] }}", {}).facts
    assert (facts.reasoning_start, facts.reasoning_end) == ("<think>", "</think>")
    facts = ChatTemplate("{{ '<seed:think>' + messages[0].content + '</seed:think>' }}", {}).facts
    assert (facts.reasoning_start, facts.reasoning_end) == ("<seed:think>", "</seed:think>")
    assert ChatTemplate(PLAIN, {}).facts.reasoning_end == ""
    facts = ChatTemplate("{{ '<|channel>thought\\n' + messages[0].reasoning + '\\n<channel|>' }}", {}).facts
    assert (facts.reasoning_start, facts.reasoning_end) == ("<|channel>thought", "<channel|>")


def test_channels_are_found_whatever_the_template_says_of_tools() -> None:
    source = "{{ '<|start|>assistant<|channel|>final<|message|>' + messages[0].content + '<|end|>' }}"
    facts = ChatTemplate(source, {}).facts
    assert facts.tool_call_syntax == "harmony"
    assert (facts.reasoning_start, facts.reasoning_end) == ("<|channel|>analysis<|message|>", "<|end|>")


def test_reasoning_beside_the_content_of_a_call_is_left_out_in_channels() -> None:
    source = (
        "{{ '<|channel|><|message|>' }}{% for m in messages %}{% if m.thinking and m.content and m.tool_calls %}"
        "{{ raise_exception('both') }}{% endif %}{{ m.thinking }}/{{ m.content }};{% endfor %}"
    )
    call = (ToolCall("call_1", "now", "{}"),)
    said = (Message("user", "a"), Message("assistant", "b", reasoning="c", tool_calls=call))
    thought = (Message("user", "a"), Message("assistant", "", reasoning="c", tool_calls=call))
    assert ChatTemplate(source, {}).render(Conversation(said)).endswith("/b;")
    assert ChatTemplate(source, {}).render(Conversation(thought)).endswith("c/;")


def test_a_template_without_tools_gets_them_as_text() -> None:
    text = ChatTemplate(PLAIN, {}).render(CONVERSATION)
    assert text.startswith("[system]Be brief.")
    assert json.dumps(TOOL["function"]) in text
    assert '<tool_call>\n{"name": "now", "arguments": {"city": "Ulm"}}\n</tool_call>' in text
    assert "[user]<tool_response>\nnoon\n</tool_response>" in text
    assert text.endswith("[answer]")


LFM2 = (
    "{{ 'List of tools: <|tool_list_start|>' + tools | tojson }}{% if messages[0].role == 'tool' %}{% endif %}" + PLAIN
)


def test_a_template_that_knows_results_and_no_calls_gets_those_in_the_syntax_of_its_model() -> None:
    text = ChatTemplate(LFM2, {}).render(CONVERSATION)
    assert '[assistant]<|tool_call_start|>[now(city="Ulm")]<|tool_call_end|>[tool]noon[answer]' in text
    assert "You can call these functions" not in text


@pytest.mark.parametrize(
    ("arguments", "written"),
    [
        ('{"a": "x\\"ü", "b": [1, -2.5, null], "c": {"d": true}}', 'f(a="x\\"ü", b=[1, -2.5, None], c={"d": True})'),
        ("", "f()"),
        ("{broken", "f({broken)"),
    ],
)
def test_calls_are_written_as_calls_of_python(arguments: str, written: str) -> None:
    calls = (ToolCall("1", "f", arguments), ToolCall("2", "now", "{}"))
    said = answer_with_calls(Message("assistant", "Wait.", tool_calls=calls), "lfm2")
    assert said == f"<|tool_call_start|>[{written}, now()]<|tool_call_end|>Wait."


def test_a_template_with_tools_gets_all_as_transformers_gives_it() -> None:
    text = ChatTemplate(WITH_TOOLS.replace("SYNTAX", "<tool_call>"), {}).render(CONVERSATION)
    assert text.startswith(json.dumps(TOOL))
    assert "<tool_call>call_1:now(Ulm)" in text
    assert text.endswith("[tool]noon=call_1")


def test_a_template_that_refuses_system_messages_gets_tools_with_the_question() -> None:
    refusing = "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    conversation = Conversation((Message("user", "Time?"),), tools=(TOOL,))
    text = ChatTemplate(refusing + PLAIN, {}).render(conversation)
    assert text.startswith("[user]You can call")
    assert text.endswith("Time?[answer]")


def test_ids_of_calls_are_short_where_the_template_refuses_others() -> None:
    text = ChatTemplate(WITH_TOOLS.replace("SYNTAX", "[TOOL_CALLS]"), {}).render(CONVERSATION)
    short = text.partition("[TOOL_CALLS]")[2].partition(":")[0]
    assert len(short) == 9
    assert short.isalnum()
    assert text.endswith(f"={short}")


def test_the_role_developer_is_kept_where_the_template_knows_it() -> None:
    known = "{% if messages[0].role == 'developer' %}yes{% endif %}"
    assert ChatTemplate(known, {}).render(CONVERSATION) == "yes"
    assert ChatTemplate("{{ messages[0].role }}", {}).render(CONVERSATION) == "system"


def test_arguments_of_the_client_reach_the_template() -> None:
    conversation = Conversation((Message("user", "a"),), template_arguments={"enable_thinking": False})
    assert ChatTemplate("{{ enable_thinking }}{{ bos_token }}", {"bos_token": "<s>"}).render(conversation) == "False<s>"


def test_they_cannot_replace_the_messages() -> None:
    conversation = Conversation((Message("user", "a"),), template_arguments={"messages": [], "bos_token": "x"})
    assert ChatTemplate(PLAIN + "{{ bos_token }}", {"bos_token": "<s>"}).render(conversation) == "[user]a[answer]<s>"


HUNDREDS_OF_MEGABYTES = 300_000_000


@pytest.mark.parametrize(
    "expression",
    ["'a' * {size}", "'%{size}d' % 1", "'a' | center({size})", "('a' * {size}) | length", "['a'] * {size}"],
)
@pytest.mark.parametrize("form", ["{{% set x = {} %}}", "{{{{ {} }}}}", "{{% if {} %}}{{{{ tools }}}}{{% endif %}}"])
def test_reading_a_template_computes_none_of_its_constants(form: str, expression: str) -> None:
    """A checkpoint's template is a stranger's program: the service reads it, and leaves running it to processes that
    have a limit of memory."""
    source = form.format(expression.format(size=HUNDREDS_OF_MEGABYTES))
    tracemalloc.start()
    try:
        ChatTemplate(source, {})
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < HUNDREDS_OF_MEGABYTES / 30
