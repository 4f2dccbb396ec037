"""Messages reach a template in the form that it reads: what stands in them is in the prompt."""

from typing import Any

import pytest
from transformers.utils.chat_template_utils import render_jinja_template

from headrace.domain.conversation import Conversation
from headrace.domain.message import Message
from headrace.domain.tool_call import ToolCall
from headrace.tokenizer.template.chat_template import ChatTemplate

ARGUMENTS = '{"cmd": "ls"}'
CALL = Message("assistant", tool_calls=(ToolCall("c", "run", ARGUMENTS),))
ASKED, RESULT = Message("user", "one"), Message("tool", "a.txt", tool_call_id="c")
TOOL = {"type": "function", "function": {"name": "now", "description": "Tells the time", "parameters": {}}}
DISTILLED = (
    "{% for m in messages %}{% if m['role'] == 'assistant' and m['content'] is none %}{% for t in m['tool_calls'] %}"
    "{{ '<call>' + t['type'] + t['function']['name'] + t['function']['arguments'] }}{% endfor %}"
    "{% elif m['role'] == 'assistant' %}{{ m['content'] + '<end>' }}"
    "{% else %}{{ '<' + m['role'] + '>' + m['content'] }}{% endif %}{% endfor %}"
)
IN_PARTS = [
    "{% for p in m['content'] | selectattr('type', 'equalto', 'text') %}{{ p['text'] }}{% endfor %}",
    "{% for p in m['content'] %}{% if p['type'] == 'text' %}{{ p['text'] }}{% endif %}{% endfor %}",
    "{% set c = m.content %}{% for p in c %}{{ p.text }}{% endfor %}",
    "{{ m.content[0].text }}",
    "{{ (m.content | first).text }}",
    "{{ m.content | map(attribute='text') | join }}",
]
IN_SOME_PARTS = [
    "{% if m.role == 'user' %}{% for p in m.content %}{{ p.text }}{% endfor %}{% else %}{{ m.content }}{% endif %}",
    "{% set c = m.content %}{% if c is iterable %}{% for p in c %}{{ p.text }}{% endfor %}{% else %}{{ c }}{% endif %}",
]
IN_TEXT = [
    "{{ m['content'] }}",
    "{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endif %}",
    "{% set c = m.content %}{% if c is string %}{{ c }}{% else %}{% for p in c %}{{ p }}{% endfor %}{% endif %}",
]


def rendered(template: str, *messages: Message, **fields: Any) -> str:
    return ChatTemplate(template, {}).render(Conversation(messages, **fields))


def loop(body: str) -> str:
    return "{% for m in messages %}<{{ m.role }}>" + body + "{% endfor %}"


def test_calls_without_content_are_in_the_prompt_of_a_template_that_asks_for_none() -> None:
    assert rendered(DISTILLED, ASKED, CALL, RESULT) == "<user>one<call>functionrun" + ARGUMENTS + "<tool>a.txt"
    assert rendered(DISTILLED, ASKED, Message("assistant", "two")) == "<user>onetwo<end>"


def test_no_content_is_an_empty_text_to_all_other_templates() -> None:
    assert (
        rendered(loop("{{ m.content }}{% for c in m.tool_calls or [] %}{{ c.id }}{% endfor %}"), CALL) == "<assistant>c"
    )


@pytest.mark.parametrize(
    ("use", "shown"),
    [
        ("{{ '' + c.function.arguments }}", ARGUMENTS),
        ("{{ '<' ~ c.function.arguments ~ '>' }}", f"<{ARGUMENTS}>"),
        ("{{ c.function.arguments }}", ARGUMENTS),
        ("{% set a = c['function']['arguments'] %}{{ a | trim }}", ARGUMENTS),
        ("{{ c.function.arguments | tojson }}", ARGUMENTS),
        ("{% for k, v in c.function.arguments | items %}{{ k }}={{ v }}{% endfor %}", "cmd=ls"),
        ("{% for k, v in c.function.arguments.items() %}{{ k }}={{ v }}{% endfor %}", "cmd=ls"),
        ("{{ c.function.arguments.cmd }}", "ls"),
        ("{% set a = c.function.arguments %}{{ a if a is string else a | tojson }}", ARGUMENTS),
    ],
)
def test_arguments_are_text_where_they_are_joined_and_an_object_where_they_are_read(use: str, shown: str) -> None:
    template = loop("{% for c in m.tool_calls or [] %}" + use + "{% endfor %}")
    assert rendered(template, CALL) == "<assistant>" + shown


@pytest.mark.parametrize("body", [*IN_PARTS, *IN_TEXT])
def test_content_is_a_list_of_parts_to_a_template_that_reads_no_other(body: str) -> None:
    expected = "<user>one<assistant>two"
    assert rendered(loop(body), ASKED, Message("assistant", "two")) == expected
    given = [{"type": "text", "text": "one"}] if body in IN_PARTS else "one"
    theirs, _ = render_jinja_template([[{"role": "user", "content": given}]], chat_template=loop(body))
    assert [rendered(loop(body), ASKED)] == theirs


@pytest.mark.parametrize("body", IN_SOME_PARTS)
def test_content_is_parts_where_a_template_reads_them_and_text_where_it_does_not(body: str) -> None:
    assert rendered(loop(body), ASKED, Message("assistant", "two")) == "<user>one<assistant>two"


@pytest.mark.parametrize("body", [*IN_PARTS, *IN_SOME_PARTS, *IN_TEXT])
def test_tools_told_as_instructions_reach_every_template(body: str) -> None:
    found = rendered(loop(body), ASKED, tools=(TOOL,))
    assert "Tells the time" in found
    assert found.endswith("<user>one")


@pytest.mark.parametrize("body", [*IN_PARTS, *IN_SOME_PARTS, *IN_TEXT])
def test_a_begun_answer_goes_on_in_every_template(body: str) -> None:
    begun = Message("assistant", "begun")
    assert rendered(loop(body) + "</>", ASKED, begun, continue_final_message=True) == "<user>one<assistant>begun"


@pytest.mark.parametrize(
    "template",
    [
        loop("{% generation %}{{ m['content'] }}{% endgeneration %}"),
        loop("{%- generation -%}\n {{ m.content }}\n{%- endgeneration %}\n"),
        loop("{% set x = 1 %}{% generation %}{% set x = 2 %}{{ x }}{% endgeneration %}{{ x }}"),
        loop("{% if loop.first %}{% continue %}{% endif %}{{ m.content }}{% break %}"),
        loop("{{ m | tojson(indent=2) }}{{ m | tojson(separators=(',', ':'), sort_keys=true) }}{{ 'é' | tojson }}"),
        "{{ strftime_now('%Y') }}{{ dict(a=1).a }}{% set n = namespace(x=1) %}{% set n.x = 2 %}{{ n.x }}",
        "{%- for m in messages -%}\n    {% if true %}\n  {{ m.role }}\n    {% endif %}\n{% endfor %}",
    ],
)
def test_a_template_gives_the_same_as_in_transformers(template: str) -> None:
    messages = [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}]
    theirs, _ = render_jinja_template([messages], chat_template=template)
    ours = rendered(template, *(Message(message["role"], message["content"]) for message in messages))
    assert [ours] == theirs
