"""Calls that a model numbers, as Kimi K2: clients get the ids that it wrote."""

import pytest
from tests.services.gateway.chat.test_answer_style import NOW, TOOLS, ULM, Read, admits, calls_in, read, style

from headrace.gateway.chat.answer_style import AnswerStyle
from headrace.gateway.chat.reading.call_reader import CallReader
from headrace.gateway.chat.syntax.call_syntax import SYNTAXES
from headrace.gateway.chat.tools.tool import Tool
from headrace.gateway.chat.tools.tool_use import ToolUse
from headrace.gateway.text.answer_format import AnswerFormat
from headrace.gateway.text.detokenizer import Vocabulary

KIMI = SYNTAXES["kimi-k2"]
OPEN, CLOSE = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"
MARKERS = (OPEN, CLOSE, "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>")


def call(call_id: str, arguments: str = "{}") -> str:
    return f"<|tool_call_begin|>{call_id}<|tool_call_argument_begin|>{arguments}<|tool_call_end|>"


def ids(text: str, *taken: str) -> list[str]:
    """Reads calls of `now` and `now_here` character by character, and returns their ids."""
    reader = CallReader(KIMI, ToolUse((NOW, Tool("now_here"))), "chatcmpl-1", taken)
    deltas = [delta for character in text for delta in reader.push(character, is_last=False)[1]]
    return [delta.call_id for delta in [*deltas, *reader.push("", is_last=True)[1]] if delta.call_id]


def test_ids_are_those_that_the_model_wrote() -> None:
    written = ["functions.now:3", "functions.now_here:4", "functions.now:12"]
    assert ids(OPEN + "".join(map(call, written)) + CLOSE) == written


def test_no_two_calls_of_a_conversation_have_one_id() -> None:
    text = OPEN + call("functions.now:0") + call("functions.now:0") + CLOSE
    assert ids(text) == ["functions.now:0", "functions.now:1"]
    assert ids(text, "functions.now:0", "functions.now:1") == ["functions.now:2", "functions.now:3"]


def test_ids_of_the_history_reach_the_reader() -> None:
    vocabulary = Vocabulary((), frozenset(), False, True, AnswerFormat("kimi-k2"))
    shown = AnswerStyle(vocabulary, ToolUse(TOOLS), past_call_ids=frozenset({"functions.now:0"}))
    reader = shown.reader()
    assert reader is not None
    part = reader.push(OPEN + call("functions.now:0") + CLOSE, is_last=True)
    assert [delta.call_id for delta in part.calls] == ["functions.now:1"]


def test_arguments_are_streamed() -> None:
    reader = CallReader(KIMI, ToolUse(TOOLS))
    reader.push(f"{OPEN}<|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>", is_last=False)
    assert [delta.arguments for delta in reader.push('{"city": "U', is_last=False)[1]] == ['{"city": "U']
    assert [delta.arguments for delta in reader.push('lm"}<|tool_call_', is_last=False)[1]] == ['lm"}']
    assert reader.push(f"end|>{CLOSE}", is_last=True) == ("", [])


@pytest.mark.parametrize("number", ["", "x", "1x", "-1", "1234567"])
def test_what_has_no_number_is_no_call(number: str) -> None:
    text = OPEN + call(f"functions.now:{number}") + CLOSE
    assert read(style("kimi-k2", ToolUse(TOOLS)), *text) == Read("", text, [])
    assert not admits(style("kimi-k2", ToolUse(TOOLS, is_required=True)), text)


@pytest.mark.parametrize("number", [0, 7, 10, 123])
def test_a_forced_call_has_the_number_that_the_model_gives_it(number: int) -> None:
    shown = style("kimi-k2", ToolUse((NOW,), is_required=True, allows_several=False))
    assert admits(shown, OPEN + call(f"functions.now:{number}") + CLOSE)
    assert not admits(shown, OPEN + call("functions.now:0") + call(f"functions.now:{number}") + CLOSE)


def test_strict_arguments_are_held_to_their_schema() -> None:
    weather = Tool(TOOLS[0].name, parameters={**TOOLS[0].parameters, "additionalProperties": False}, is_strict=True)
    shown = style("kimi-k2", ToolUse((weather,), is_required=True))
    assert admits(shown, OPEN + call("functions.get_weather:0", '{"city": "Ulm", "days": 2}') + CLOSE)
    assert not admits(shown, OPEN + call("functions.get_weather:0", '{"city": "Ulm"}') + CLOSE)


def test_markers_that_are_special_tokens_are_matched_by_their_ids() -> None:
    pieces = (b"a", *(marker.encode() for marker in MARKERS))
    vocabulary = Vocabulary(pieces, frozenset(range(1, 6)), False, True, AnswerFormat("kimi-k2"))
    shown = AnswerStyle(vocabulary, ToolUse(TOOLS))
    grammar = shown.grammar(None)
    assert grammar is not None
    assert not any(marker in grammar.text for marker in MARKERS)
    assert shown.marker_token_ids() == frozenset(range(1, 6))


def test_a_cut_answer_shows_nothing_of_the_markers() -> None:
    weather = '{"city": "Ulm", "days": 2, "rain": true}'
    text = f"I look. {OPEN}{call('functions.get_weather:0', weather)}{call('functions.now:1')}{CLOSE}"
    for length in range(len("I look. <|"), len(text) + 1):
        reader = CallReader(KIMI, ToolUse(TOOLS))
        content, deltas = reader.push(text[:length], is_last=True, is_cut=True)
        assert content == "I look."
        assert all("<|" not in delta.arguments for delta in deltas)
    assert calls_in_whole(text) == [("get_weather", ULM), ("now", {})]


def calls_in_whole(text: str) -> list[tuple[str, object]]:
    reader = style("kimi-k2", ToolUse(TOOLS)).reader()
    assert reader is not None
    return calls_in([reader.push(text, is_last=True)])
