"""The history of a model that numbers its calls has ids of its own form: it sees a function's name in them alone."""

import pytest

from headrace.domain.conversation import Conversation
from headrace.domain.message import Message
from headrace.domain.tool_call import ToolCall
from headrace.tokenizer.template.chat_template import ChatTemplate
from headrace.tokenizer.template.numbered_calls import KIMI

KIMI_K2 = (
    "{%- if tools -%}<|im_system|>tool_declare<|im_middle|>{{ tools | tojson }}<|im_end|>{%- endif -%}"
    "{%- for message in messages -%}"
    "{%- if message['role'] == 'assistant' and message.get('tool_calls') -%}"
    "{{ message['content'] }}<|tool_calls_section_begin|>{%- for tool_call in message['tool_calls'] -%}"
    "<|tool_call_begin|>{{ tool_call['id'] }}<|tool_call_argument_begin|>"
    "{% if tool_call['function']['arguments'] is string %}{{ tool_call['function']['arguments'] }}"
    "{% else %}{{ tool_call['function']['arguments'] | tojson }}{% endif %}<|tool_call_end|>{%- endfor -%}"
    "<|tool_calls_section_end|>"
    "{%- elif message['role'] == 'tool' -%}## Return of {{ message.tool_call_id }}\n{{ message['content'] }}"
    "{%- else -%}{{ message['content'] }}{%- endif -%}<|im_end|>{%- endfor -%}"
)


def turn(*calls: tuple[str, str]) -> tuple[Message, ...]:
    """An answer with calls of functions by these ids and names, and its results."""
    made = tuple(ToolCall(call_id, name, '{"a": 1}') for call_id, name in calls)
    return (
        Message("assistant", tool_calls=made),
        *(Message("tool", f"of {name}", tool_call_id=call_id) for call_id, name in calls),
    )


def shown(*given: str) -> str:
    """The text of calls and their results."""
    calls = "".join(
        f"<|tool_call_begin|>{each}<|tool_call_argument_begin|>" + '{"a": 1}<|tool_call_end|>' for each in given
    )
    results = "".join(f"## Return of {each}\nof {each.partition('.')[2].partition(':')[0]}<|im_end|>" for each in given)
    return f"<|tool_calls_section_begin|>{calls}<|tool_calls_section_end|><|im_end|>{results}"


def rendered(*turns: tuple[Message, ...]) -> str:
    template = ChatTemplate(KIMI_K2, {})
    assert template.facts.tool_call_syntax == KIMI
    messages = tuple(message for each in turns for message in each)
    return template.render(Conversation((Message("user", "Go"), *messages))).removeprefix("Go<|im_end|>")


def test_ids_of_the_model_are_kept() -> None:
    first, second = "functions.now:0", "functions.get_weather:7"
    assert rendered(turn((first, "now"), (second, "get_weather"))) == shown(first, second)


def test_ids_of_others_are_counted_over_the_conversation() -> None:
    turns = [turn(("call_a", "now"), ("call_b", "now")), turn(("functions.f:2", "f")), turn(("call_c", "get.x-y"))]
    expected = shown("functions.now:0", "functions.now:1") + shown("functions.f:2")
    assert rendered(*turns).startswith(expected)
    assert "## Return of functions.get.x-y:3\n" in rendered(*turns)


def test_an_id_that_comes_again_is_that_of_the_last_call_before() -> None:
    assert rendered(turn(("x", "now")), turn(("x", "f"))) == shown("functions.now:0") + shown("functions.f:1")


def test_a_number_that_the_model_has_given_is_not_given_again() -> None:
    turns = turn(("call_a", "now")), turn(("functions.now:0", "now"))
    assert rendered(*turns) == shown("functions.now:1") + shown("functions.now:0")


@pytest.mark.parametrize("given", ["now:0", "functions.f:0", "functions.now:", "functions.now:x", "functions.now:0 "])
def test_only_the_name_and_the_number_make_an_id(given: str) -> None:
    assert rendered(turn((given, "now"))) == shown("functions.now:0")


def test_a_result_without_a_call_keeps_its_id() -> None:
    assert rendered((Message("tool", "of x", tool_call_id="call_x"),)) == "## Return of call_x\nof x<|im_end|>"
