"""Grammar and reading of answers agree, for every syntax of tool calls: what one admits, the other takes apart."""

import json
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
from llguidance import LLTokenizer
from tests.services.gateway.chat.admitted import admits_tokens

from headrace.demo_model import CHECKPOINT
from headrace.errors import Unsupported
from headrace.gateway.chat.answer_style import AnswerStyle
from headrace.gateway.chat.output_grammar import OutputGrammar
from headrace.gateway.chat.reading.answer_part import AnswerPart
from headrace.gateway.chat.syntax.call_syntax import SYNTAXES
from headrace.gateway.chat.tools.tool import Tool
from headrace.gateway.chat.tools.tool_use import ToolUse
from headrace.gateway.text.answer_format import AnswerFormat
from headrace.gateway.text.detokenizer import Vocabulary
from headrace.v1.generation_pb2 import (
    GRAMMAR_KIND_CHOICE,
    GRAMMAR_KIND_JSON_SCHEMA,
    GRAMMAR_KIND_LARK,
    GRAMMAR_KIND_REGEX,
)

WEATHER = Tool(
    "get_weather",
    "Tells the weather",
    {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "unit": {"enum": ["c", "f"]},
            "days": {"type": "integer"},
            "rain": {"type": "boolean"},
        },
        "required": ["city", "days"],
    },
)
NOW = Tool("now")
TOOLS = (WEATHER, NOW)
THINK = ("<think>", "</think>")
ARGUMENTS = {
    "qwen-xml": (
        "<parameter=city>\nUlm\n</parameter>\n<parameter=days>\n2\n</parameter>\n<parameter=rain>\ntrue\n</parameter>\n"
        "</function>"
    ),
    "glm": (
        "<arg_key>city</arg_key>\n<arg_value>Ulm</arg_value>\n<arg_key>days</arg_key>\n<arg_value>2</arg_value>\n"
        "<arg_key>rain</arg_key>\n<arg_value>true</arg_value>\n</tool_call>"
    ),
    "minimax": (
        '<parameter name="city">Ulm</parameter>\n<parameter name="days">2</parameter>\n'
        '<parameter name="rain">true</parameter>\n</invoke>'
    ),
    "seed": (
        "<parameter=city>Ulm</parameter>\n<parameter=days>2</parameter>\n<parameter=rain>true</parameter>\n</function>"
    ),
    "gemma4": 'city:<|"|>Ulm<|"|>,days:2,rain:true}',
    "lfm2": 'city="Ulm", days=2, rain=True)',
    "pythonic": 'city="Ulm", days=2, rain=True)',
}
"""Arguments of the call of get_weather in the syntaxes that do not write them as JSON."""
NO_ARGUMENTS = {
    "qwen-xml": "</function>",
    "glm": "</tool_call>",
    "minimax": "</invoke>",
    "seed": "</function>",
    "gemma4": "}",
    "lfm2": ")",
    "pythonic": ")",
}
ULM = {"city": "Ulm", "days": 2, "rain": True}
CALLS = [("get_weather", ULM), ("now", {})]


@dataclass
class Read:
    """An answer that was taken apart."""

    reasoning: str
    content: str
    calls: list[tuple[str, Any]]


@cache
def tokenizer() -> LLTokenizer:
    return LLTokenizer((CHECKPOINT / "tokenizer.json").read_text(), n_vocab=2048, eos_token=[4, 2])


def style(
    syntax: str, tool_use: ToolUse | None, reasoning: tuple[str, str] = ("", ""), is_open: bool = False
) -> AnswerStyle:
    vocabulary = Vocabulary((), frozenset(), False, True, AnswerFormat(syntax, *reasoning))
    return AnswerStyle(vocabulary, tool_use, is_open)


def call(name: str, which: int) -> str:
    """One call in a syntax."""
    syntax = SYNTAXES[name]
    json_text = json.dumps(ULM if which == 0 else {})
    arguments = (ARGUMENTS if which == 0 else NO_ARGUMENTS).get(name, json_text)
    number = syntax.before_number and f"{syntax.before_number}{which}"
    head = syntax.before_name + TOOLS[which].name + number + syntax.before_arguments
    return head + arguments + syntax.after_arguments


def both(name: str) -> str:
    syntax = SYNTAXES[name]
    return syntax.opening + call(name, 0) + syntax.separator + call(name, 1) + syntax.closing


def one(name: str) -> str:
    return SYNTAXES[name].opening + call(name, 0) + SYNTAXES[name].closing


def admits(shown: AnswerStyle, text: str, wanted: OutputGrammar | None = None) -> bool:
    return admits_tokens(shown, tokenizer(), tokenizer().tokenize_str(text), wanted)


def read(shown: AnswerStyle, *parts: str) -> Read:
    reader = shown.reader()
    assert reader is not None
    found = [reader.push(part, is_last=False) for part in parts] + [reader.push("", is_last=True)]
    return Read("".join(part.reasoning for part in found), "".join(part.content for part in found), calls_in(found))


def calls_in(parts: list[AnswerPart]) -> list[tuple[str, Any]]:
    names: list[str] = []
    arguments: list[str] = []
    for delta in (delta for part in parts for delta in part.calls):
        if delta.call_id:
            assert delta.index == len(names)
            names.append(delta.name)
            arguments.append("")
        arguments[delta.index] += delta.arguments
    return [(name, json.loads(text)) for name, text in zip(names, arguments, strict=True)]


@pytest.mark.parametrize("name", SYNTAXES)
class TestSyntax:
    def test_an_answer_may_be_text(self, name: str) -> None:
        shown = style(name, ToolUse(TOOLS))
        assert admits(shown, "Hello there")
        assert read(shown, "Hello there") == Read("", "Hello there", [])

    def test_an_answer_may_be_calls(self, name: str) -> None:
        shown = style(name, ToolUse(TOOLS))
        assert admits(shown, both(name))
        assert read(shown, both(name)) == Read("", "", CALLS)

    def test_text_may_precede_calls_where_a_marker_tells_them_apart(self, name: str) -> None:
        if SYNTAXES[name].marker:
            shown = style(name, ToolUse(TOOLS))
            assert admits(shown, f"Let me see.\n{both(name)}")
            assert read(shown, f"Let me see.\n{both(name)}") == Read("", "Let me see.", CALLS)

    def test_calls_can_be_required(self, name: str) -> None:
        shown = style(name, ToolUse(TOOLS, is_required=True))
        assert admits(shown, both(name))
        assert not admits(shown, "Hello there")

    def test_several_calls_can_be_forbidden(self, name: str) -> None:
        shown = style(name, ToolUse(TOOLS, is_required=True, allows_several=False))
        assert admits(shown, one(name))
        assert not admits(shown, both(name))

    def test_other_tools_are_not_admitted(self, name: str) -> None:
        assert not admits(style(name, ToolUse((NOW,), is_required=True)), one(name))

    @pytest.mark.parametrize("is_open", [True, False])
    def test_reasoning_precedes_the_answer(self, name: str, is_open: bool) -> None:
        shown = style(name, ToolUse(TOOLS), THINK, is_open)
        text = f"{'' if is_open else '<think>'}\nhm, well\n</think>\n\n{both(name)}"
        assert admits(shown, text)
        assert read(shown, text) == Read("hm, well", "", CALLS)

    def test_it_is_read_alike_wherever_it_is_split(self, name: str) -> None:
        shown = style(name, ToolUse(TOOLS), THINK, is_open=True)
        text = f"hm </thinking> so\n</think>\n{both(name)}"
        whole = read(shown, text)
        assert whole == Read("hm </thinking> so", "", CALLS)
        for at in range(len(text)):
            assert read(shown, text[:at], text[at:]) == whole
        assert read(shown, *text) == whole

    def test_what_only_resembles_a_call_is_content(self, name: str) -> None:
        literal = SYNTAXES[name].opening + SYNTAXES[name].before_name
        text = f"{literal[: max(1, len(literal) // 2)]}~ and on"
        assert read(style(name, ToolUse(TOOLS)), *text).content == text

    def test_an_answer_that_ends_early_keeps_what_there_is(self, name: str) -> None:
        shown = style(name, ToolUse(TOOLS))
        reader = shown.reader()
        assert reader is not None
        text = SYNTAXES[name].opening + call(name, 0)
        assert [delta.name for delta in reader.push(text[: text.index("Ulm")], is_last=True).calls] == ["get_weather"]


NESTED = Tool(
    "nested",
    "",
    {
        "type": "object",
        "properties": {
            "who": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "tags": {"type": "array", "items": {"enum": ["a", "b"]}}},
                "required": ["name"],
            },
            "when": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
            "rest": {},
        },
        "required": ["who"],
    },
)


def test_quoted_arguments_nest() -> None:
    shown = style("gemma4", ToolUse((NESTED,), is_required=True))
    text = (
        '<|tool_call>call:nested{who:{name:<|"|>a "b" {c}<|"|>,tags:[<|"|>a<|"|>,<|"|>b<|"|>]},when:<|"|>now<|"|>,'
        'rest:[1.5,{k:null,l:[]},<|"|>x<|"|>]}<tool_call|>'
    )
    arguments = {
        "who": {"name": 'a "b" {c}', "tags": ["a", "b"]},
        "when": "now",
        "rest": [1.5, {"k": None, "l": []}, "x"],
    }
    assert admits(shown, text)
    assert read(shown, *text) == Read("", "", [("nested", arguments)])
    assert admits(shown, '<|tool_call>call:nested{who:{name:<|"|><|"|>},when:3}<tool_call|>')
    assert not admits(shown, '<|tool_call>call:nested{who:{tags:[<|"|>a<|"|>]}}<tool_call|>')
    assert not admits(shown, '<|tool_call>call:nested{who:{name:<|"|>a<|"|>,tags:[<|"|>c<|"|>]}}<tool_call|>')


@pytest.mark.parametrize("written", ["who", "a:}b", 'a:<|"|>b', "a:,b:1"])
def test_arguments_that_are_no_object_stay_text(written: str) -> None:
    shown = style("gemma4", ToolUse((NESTED,)))
    text = f"<|tool_call>call:nested{{{written}}}<tool_call|>"
    found = read(shown, text)
    assert found.content == ""
    assert [name for name, _ in found.calls] == ["nested"]


def test_a_special_token_is_matched_by_its_id() -> None:
    vocabulary = Vocabulary((b"a", b"[TOOL_CALLS]"), frozenset({1}), False, True, AnswerFormat("mistral"))
    shown = AnswerStyle(vocabulary, ToolUse(TOOLS))
    grammar = shown.grammar(None)
    assert grammar is not None
    lark = json.loads(grammar.text)["lark"]
    assert "<[1]>" in lark
    assert "TOOL_CALLS" not in lark
    assert shown.marker_token_ids() == {1}


def test_reasoning_alone_is_read_without_a_grammar() -> None:
    shown = style("hermes", None, THINK, is_open=True)
    assert shown.grammar(None) is None
    assert read(shown, "a", " b\n</thi", "nk>\n\nc") == Read("a b", "c", [])


@pytest.mark.parametrize(
    ("kind", "form", "good", "bad"),
    [
        (GRAMMAR_KIND_JSON_SCHEMA, '{"type": "integer"}', "7", "x"),
        (GRAMMAR_KIND_REGEX, "[a-c]+/[0-9]", "ab/1", "d"),
        (GRAMMAR_KIND_CHOICE, '["yes", "no"]', "no", "maybe"),
    ],
)
def test_content_of_a_given_form_stands_beside_calls_and_after_reasoning(
    kind: Any, form: str, good: str, bad: str
) -> None:
    wanted = OutputGrammar(kind, form, "response_format")
    beside = style("hermes", ToolUse(TOOLS))
    assert admits(beside, good, wanted)
    assert admits(beside, both("hermes"), wanted)
    assert not admits(beside, bad, wanted)
    after = style("hermes", None, THINK, is_open=True)
    assert admits(after, f"hm</think>\n{good}", wanted)
    assert not admits(after, f"hm</think>{bad}", wanted)
    assert not admits(after, good, wanted)


def test_a_grammar_of_its_own_cannot_be_part_of_another() -> None:
    with pytest.raises(Unsupported, match="guided_grammar cannot be combined"):
        style("hermes", ToolUse(TOOLS)).grammar(OutputGrammar(GRAMMAR_KIND_LARK, "start: /a/", "guided_grammar"))


def test_plain_answers_are_left_alone() -> None:
    wanted = OutputGrammar(GRAMMAR_KIND_REGEX, "a+", "guided_regex")
    shown = style("hermes", None)
    assert shown.grammar(wanted) is wanted
    assert shown.reader() is None
    assert shown.marker_token_ids() == frozenset()
