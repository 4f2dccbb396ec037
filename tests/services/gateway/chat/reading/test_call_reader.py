"""Calls that end in the middle show nothing of their syntax."""

import pytest

from headrace.gateway.chat.reading.call_reader import CallReader
from headrace.gateway.chat.syntax.call_syntax import SYNTAXES, CallSyntax
from headrace.gateway.chat.tools.tool import Tool
from headrace.gateway.chat.tools.tool_use import ToolUse

TOOL = Tool("get_weather", parameters={"type": "object", "properties": {"city": {"type": "string"}}})


def written(syntax: CallSyntax) -> str:
    """Everything before the arguments of a call."""
    return syntax.opening + syntax.before_name + TOOL.name


@pytest.mark.parametrize("name", SYNTAXES)
def test_no_beginning_of_a_required_call_is_content(name: str) -> None:
    syntax = SYNTAXES[name]
    for length in range(1, len(written(syntax)) + 1):
        reader = CallReader(syntax, ToolUse((TOOL,), is_required=True))
        begun = written(syntax)[:length]
        shown = [reader.push(character, is_last=False)[0] for character in begun[:-1]]
        shown.append(reader.push(begun[-1], is_last=True, is_cut=True)[0])
        assert "".join(shown) == ""


def test_text_before_a_call_that_was_cut_off_stays() -> None:
    reader = CallReader(SYNTAXES["hermes"], ToolUse((TOOL,)))
    assert reader.push("I look. <tool_call", is_last=True, is_cut=True) == ("I look.", [])


@pytest.mark.parametrize("text", ["1 <", "a <b", "<tool_cast"])
def test_text_that_is_no_call_stays(text: str) -> None:
    reader = CallReader(SYNTAXES["hermes"], ToolUse((TOOL,)))
    assert reader.push(text, is_last=True, is_cut=True)[0] == text


def test_an_answer_that_ends_by_itself_keeps_all_of_its_text() -> None:
    reader = CallReader(SYNTAXES["hermes"], ToolUse((TOOL,)))
    assert reader.push("<tool_call", is_last=True)[0] == "<tool_call"
