"""A last message that goes on: the prompt ends with its text, and nothing closes it."""

import pytest

from headrace.domain.conversation import Conversation
from headrace.domain.message import Message
from headrace.domain.tool_call import ToolCall
from headrace.errors import InvalidRequest
from headrace.tokenizer.template.chat_template import ChatTemplate

TURNS = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}</>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
TRIMMED = TURNS.replace("m.content", "m.content | trim")
FIRST_ONLY = "{{ messages[0].content }}"


def rendered(template: str, *messages: Message) -> str:
    return ChatTemplate(template, {}).render(Conversation(messages, continue_final_message=True))


@pytest.mark.parametrize("template", [TURNS, TRIMMED])
@pytest.mark.parametrize("begun", ["The KV cache stores", "{", "ends with a space "])
def test_the_prompt_ends_with_the_text_that_was_given(template: str, begun: str) -> None:
    found = rendered(template, Message("user", "What?"), Message("assistant", begun))
    assert found == f"<user>What?</><assistant>{begun}"


def test_a_text_that_stands_twice_goes_on_at_the_second() -> None:
    assert rendered(TURNS, Message("user", "same"), Message("assistant", "same")) == "<user>same</><assistant>same"


def test_calls_cannot_go_on() -> None:
    with pytest.raises(InvalidRequest, match="send their results") as refused:
        rendered(TURNS, Message("user", "x"), Message("assistant", tool_calls=(ToolCall("c", "f", "{}"),)))
    assert refused.value.param == "messages"


def test_a_template_without_the_last_message_is_said_to_be_one() -> None:
    with pytest.raises(InvalidRequest, match="leaves out the last message"):
        rendered(FIRST_ONLY, Message("user", "x"), Message("assistant", "y"))
