"""Grammar and reading of answers in channels agree, with markers that are special tokens."""

import json
from functools import cache

import pytest
from llguidance import LLTokenizer
from tests.services.gateway.chat.admitted import admits_tokens
from tokenizers import AddedToken, Tokenizer

from headrace.demo_model import CHECKPOINT
from headrace.gateway.chat.answer_style import AnswerStyle
from headrace.gateway.chat.channels import channel_markers
from headrace.gateway.chat.output_grammar import OutputGrammar
from headrace.gateway.chat.tools.tool import Tool
from headrace.gateway.chat.tools.tool_use import ToolUse
from headrace.gateway.text.answer_format import AnswerFormat
from headrace.gateway.text.detokenizer import Vocabulary
from headrace.v1.generation_pb2 import GRAMMAR_KIND_JSON_SCHEMA

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = (Tool("get_weather", "", CITY), Tool("now"))
THOUGHT = "<|channel|>analysis<|message|>Hm <b>\n<|end|><|start|>assistant"
NOTE = "<|channel|>commentary<|message|>Let me look.<|end|><|start|>assistant"
CALL = '<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"city": "Ulm"}'
ANSWER = "<|channel|>final<|message|>Sun, then rain."
NUMBER = OutputGrammar(GRAMMAR_KIND_JSON_SCHEMA, '{"type": "integer"}', "response_format")
FORM = AnswerFormat("harmony", "<|channel|>analysis<|message|>", "<|end|>")


@cache
def text_tokenizer() -> Tokenizer:
    tokenizer = Tokenizer.from_file(str(CHECKPOINT / "tokenizer.json"))
    tokenizer.add_special_tokens([AddedToken(each, special=True) for each in channel_markers.ALL])
    return tokenizer


def special(text: str) -> int:
    token_id = text_tokenizer().token_to_id(text)
    assert token_id is not None
    return token_id


@cache
def tokenizer() -> LLTokenizer:
    return LLTokenizer(text_tokenizer().to_str(), eos_token=[special("<|return|>")])


def style(tool_use: ToolUse | None = None) -> AnswerStyle:
    known = text_tokenizer()
    pieces = tuple((known.id_to_token(index) or "").encode() for index in range(known.get_vocab_size()))
    return AnswerStyle(Vocabulary(pieces, frozenset(map(special, channel_markers.ALL)), False, True, FORM), tool_use)


def admits(shown: AnswerStyle, text: str, wanted: OutputGrammar | None = None) -> bool:
    return admits_tokens(shown, tokenizer(), text_tokenizer().encode(text, add_special_tokens=False).ids, wanted)


@pytest.mark.parametrize("before", ["", THOUGHT, THOUGHT * 2, THOUGHT + NOTE])
def test_thoughts_and_notes_precede_an_answer_or_a_call(before: str) -> None:
    shown = style(ToolUse(TOOLS))
    assert admits(shown, before + ANSWER)
    assert admits(shown, before + CALL)
    assert not admits(shown, before) or not before


def test_arguments_follow_their_schema_and_tools_are_those_that_are_there() -> None:
    shown = style(ToolUse(TOOLS))
    assert not admits(shown, CALL.replace('"city"', '"town"'))
    assert not admits(shown, CALL.replace("get_weather", "get_water"))
    assert not admits(shown, "Hello")


def test_a_call_can_be_required() -> None:
    shown = style(ToolUse(TOOLS, is_required=True))
    assert admits(shown, THOUGHT + CALL)
    assert not admits(shown, ANSWER)


def test_the_answer_has_the_form_that_the_client_wants() -> None:
    for shown in (style(), style(ToolUse(TOOLS))):
        assert admits(shown, THOUGHT + "<|channel|>final<|message|>17", NUMBER)
        assert not admits(shown, THOUGHT + ANSWER, NUMBER)
    assert admits(style(ToolUse(TOOLS)), CALL, NUMBER)


def test_what_is_admitted_is_read() -> None:
    reader = style(ToolUse(TOOLS)).reader()
    assert reader is not None
    part = reader.push(THOUGHT + NOTE + CALL, is_last=True)
    assert (part.reasoning, part.content) == ("Hm <b>\n", "Let me look.")
    assert [(call.name, json.loads(call.arguments)) for call in part.calls] == [("get_weather", {"city": "Ulm"})]


def test_the_reader_sees_all_markers_and_without_a_form_there_is_no_grammar() -> None:
    shown = style()
    assert shown.marker_token_ids() == frozenset(map(special, channel_markers.ALL))
    assert shown.grammar(None) is None
    assert not shown.is_plain
