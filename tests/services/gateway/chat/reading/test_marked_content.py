"""Marks around an answer, as Hunyuan writes them, are no content."""

import json
from typing import Any

import pytest
from tests.services.gateway.chat.test_answer_style import CALLS, NOW, THINK, TOOLS, Read, admits, both, read, style

from headrace.gateway.chat.output_grammar import OutputGrammar
from headrace.gateway.chat.reading.bounds import MAX_SPACE
from headrace.gateway.chat.reading.marked_content import MarkedContent
from headrace.gateway.chat.syntax.call_syntax import SYNTAXES
from headrace.gateway.chat.tools.tool_use import ToolUse
from headrace.v1.generation_pb2 import GRAMMAR_KIND_CHOICE, GRAMMAR_KIND_JSON_SCHEMA, GRAMMAR_KIND_REGEX

MARKED = sorted(name for name, syntax in SYNTAXES.items() if all(syntax.answer_marks))
OPEN = "<think>\nhm\n</think>\n<answer>\n"


def content(text: str, *, is_cut: bool = False) -> str:
    """The content in a text, which is the same wherever the text is split."""
    found = {_content([*text], is_cut), _content([text], is_cut)}
    found |= {_content([text[:at], text[at:]], is_cut) for at in range(len(text))}
    assert len(found) == 1
    return found.pop()


def _content(pieces: list[str], is_cut: bool) -> str:
    reader = MarkedContent("<answer>", "</answer>")
    shown = [reader.push(piece, is_last=False) for piece in pieces]
    return "".join(shown) + reader.push("", is_last=True, is_cut=is_cut)


def test_the_known_syntaxes_with_marks() -> None:
    assert MARKED == ["hunyuan", "hunyuan-hermes"]


@pytest.mark.parametrize("name", MARKED)
@pytest.mark.parametrize("thought", ["hm", ""])
def test_marks_follow_reasoning(name: str, thought: str) -> None:
    text = f"<think>\n{thought}\n</think>\n<answer>\nTwo\n\nlines\n</answer>"
    assert read(style(name, None, THINK), *text) == Read(thought, "Two\n\nlines", [])
    assert read(style(name, None, THINK), text) == Read(thought, "Two\n\nlines", [])


@pytest.mark.parametrize("name", MARKED)
def test_marks_are_cut_where_thinking_is_off(name: str) -> None:
    assert read(style(name, None, THINK), *"<answer>\nTwo\n</answer>") == Read("", "Two", [])


@pytest.mark.parametrize("name", MARKED)
def test_other_models_answers_are_left_alone(name: str) -> None:
    syntax = "hermes"
    text = "<answer>\nTwo\n</answer>"
    assert read(style(syntax, None, THINK), *f"<think>hm</think>{text}") == Read("hm", text, [])
    assert style(name, None).reader() is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<answer>\nTwo\n</answer>", "Two"),
        ("<answer>Two</answer>", "Two"),
        ("\n<answer>\n\nTwo\n</answer>\n", "Two"),
        ("<answer>\nTwo", "Two"),
        ("<answer>\nTwo \n", "Two \n"),
        ("Two\n</answer>", "Two"),
        ("Two", "Two"),
        ("<answers>", "<answers>"),
        (" 1 < 2", " 1 < 2"),
        ("<answer>\n</answer>", ""),
        ("<answer>", ""),
        ("", ""),
        ("<answer>\n<answer>5</answer>\n</answer>", "<answer>5</answer>"),
        ("<answer>\nWrite </answer> there.\n</answer>", "Write </answer> there."),
        ("<answer>\na </ b </answer c", "a </ b </answer c"),
        ("<answer>\n1 <", "1 <"),
    ],
)
def test_only_the_outer_marks_are_cut(text: str, expected: str) -> None:
    assert content(text) == expected


def test_a_cut_answer_shows_nothing_of_the_marks() -> None:
    text = "<answer>\nTwo\n</answer>"
    for length in range(1, len(text) + 1):
        shown = content(text[:length], is_cut=True).rstrip("\n")
        assert shown == "Two"[: max(0, length - len("<answer>\n"))]


def test_an_end_without_a_beginning_may_be_cut_too() -> None:
    assert content("Two\n</ans", is_cut=True) == "Two"
    assert content("Two\n</ans") == "Two\n</ans"
    assert content("1 <", is_cut=True) == "1 <"


def test_content_is_not_held_back() -> None:
    reader = MarkedContent("<answer>", "</answer>")
    assert reader.push("<answer>\nTwo ", is_last=False) == "Two"
    assert reader.push("lines\n<", is_last=False) == " lines"
    assert reader.push("b", is_last=False) == "\n<b"
    spaces = " " * (2 * MAX_SPACE)
    assert reader.push(spaces, is_last=False) == spaces


@pytest.mark.parametrize("name", MARKED)
@pytest.mark.parametrize("close", ["", "</answer>", "\n</answer>"])
def test_calls_stand_between_marks(name: str, close: str) -> None:
    for is_required in (False, True):
        shown = style(name, ToolUse(TOOLS, is_required=is_required), THINK)
        text = f"{OPEN}{both(name)}{close}"
        assert admits(shown, text)
        assert read(shown, *text) == Read("hm", "", CALLS)


@pytest.mark.parametrize("name", MARKED)
def test_text_before_calls_is_content(name: str) -> None:
    shown = style(name, ToolUse(TOOLS), THINK)
    assert read(shown, *f"{OPEN}I look.\n{both(name)}\n</answer>") == Read("hm", "I look.", CALLS)
    assert read(shown, *f"{OPEN}I look.\n</answer>\n{both(name)}") == Read("hm", "I look.", CALLS)


@pytest.mark.parametrize("name", MARKED)
def test_required_calls_stay_required(name: str) -> None:
    shown = style(name, ToolUse((NOW,), is_required=True), THINK)
    assert not admits(shown, f"{OPEN}Two\n</answer>")
    assert not admits(shown, f"{OPEN}</answer>")


@pytest.mark.parametrize(
    ("kind", "form", "good", "bad"),
    [
        (GRAMMAR_KIND_JSON_SCHEMA, '{"type": "object", "properties": {"a": {"type": "integer"}}}', '{"a": 7}', "x"),
        (GRAMMAR_KIND_REGEX, "[a-c]+/[0-9]", "ab/1", "d"),
        (GRAMMAR_KIND_CHOICE, '["yes", "no"]', "no", "maybe"),
    ],
)
def test_marks_may_stand_around_content_of_a_given_form(kind: Any, form: str, good: str, bad: str) -> None:
    shown, wanted = style("hunyuan", None, THINK), OutputGrammar(kind, form, "response_format")
    for text in (f"{OPEN}{good}\n</answer>", f"<think>hm</think>{good}", f"<answer>{good}</answer>", good):
        assert admits(shown, text, wanted), text
        assert read(shown, *text).content == good
    assert not admits(shown, f"{OPEN}{bad}\n</answer>", wanted)
    assert json.loads(shown.grammar(wanted).text)["lark"].count("</answer>") == 1  # type: ignore[union-attr]
