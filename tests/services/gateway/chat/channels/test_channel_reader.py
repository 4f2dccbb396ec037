"""Answers in channels are taken apart, wherever they are split, and broken ones lose no text."""

import json
from dataclasses import dataclass

import pytest

from headrace.gateway.chat.channels.channel_reader import ChannelReader
from headrace.gateway.chat.tools.tool import Tool
from headrace.gateway.chat.tools.tool_use import ToolUse

TOOLS = ToolUse((Tool("get_weather"), Tool("now")))
THOUGHT = "<|channel|>analysis<|message|>The user asks for Ulm.<|end|>"
NEXT = "<|start|>assistant"
CALL = '<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"city": "Ulm"}<|call|>'


@dataclass(frozen=True)
class Case:
    text: str
    reasoning: str = ""
    content: str = ""
    calls: tuple[tuple[str, str], ...] = ()


CASES = {
    "an answer": Case("<|channel|>final<|message|>Hello.<|return|>", content="Hello."),
    "an answer without its end": Case("<|channel|>final<|message|>Hello", content="Hello"),
    "a thought, and an answer": Case(
        f"{THOUGHT}{NEXT}<|channel|>final<|message|>Sun.<|return|>", "The user asks for Ulm.", "Sun."
    ),
    "a thought alone": Case("<|channel|>analysis<|message|>Hm", "Hm"),
    "a thought, and a call": Case(
        f"{THOUGHT}{NEXT}{CALL}", "The user asks for Ulm.", calls=(("get_weather", '{"city": "Ulm"}'),)
    ),
    "a recipient before the channel": Case(
        f"{THOUGHT}{NEXT} to=functions.now<|channel|>commentary json<|message|>{{}}<|call|>",
        "The user asks for Ulm.",
        calls=(("now", "{}"),),
    ),
    "a recipient at the beginning": Case(
        " to=functions.now<|channel|>commentary <|constrain|>json<|message|>{}", calls=(("now", "{}"),)
    ),
    "what is said before a call": Case(
        f"<|channel|>commentary<|message|>Let me look.<|end|>{NEXT}{CALL}",
        content="Let me look.",
        calls=(("get_weather", '{"city": "Ulm"}'),),
    ),
    "two calls": Case(
        f"{CALL}{NEXT}<|channel|>commentary to=functions.now<|message|>{{}}<|call|>",
        calls=(("get_weather", '{"city": "Ulm"}'), ("now", "{}")),
    ),
    "a remark and an answer": Case(
        f"<|channel|>commentary<|message|>One.<|end|>{NEXT}<|channel|>final<|message|>Two.", content="One.\n\nTwo."
    ),
    "a tool of the model's own": Case("<|channel|>analysis to=python code<|message|>1 + 1<|call|>", reasoning="1 + 1"),
    "a tool that is not there": Case(
        "<|channel|>commentary to=functions.rm <|constrain|>json<|message|>{}<|call|>", content="{}"
    ),
    "an end that is missing": Case(
        "<|channel|>analysis<|message|>Hm<|channel|>final<|message|>Yes", reasoning="Hm", content="Yes"
    ),
    "a start that ends a message": Case(
        f"<|channel|>analysis<|message|>Hm{NEXT}<|channel|>final<|message|>Yes", reasoning="Hm", content="Yes"
    ),
    "no markers": Case("Hello <b>there</b> < you |>", content="Hello <b>there</b> < you |>"),
    "no markers, but words of them": Case("assistants", content="assistants"),
    "a header without a text": Case(f"{THOUGHT}{NEXT}<|channel|>fin", reasoning="The user asks for Ulm."),
    "a marker that is none": Case("<|channel|>final<|message|>a <|en b <|message c", content="a <|en b <|message c"),
}


def read(*parts: str) -> Case:
    reader = ChannelReader(TOOLS, "answer")
    found = [*(reader.push(part, is_last=False) for part in parts), reader.push("", is_last=True)]
    calls: list[tuple[str, str]] = []
    for delta in (delta for part in found for delta in part.calls):
        if delta.call_id:
            assert delta.index == len(calls)
            calls.append((delta.name, ""))
        name, arguments = calls[delta.index]
        calls[delta.index] = name, arguments + delta.arguments
    texts = ("".join(part.reasoning for part in found), "".join(part.content for part in found))
    return Case("".join(parts), *texts, tuple(calls))


@pytest.mark.parametrize("name", CASES)
def test_an_answer_is_taken_apart_alike_wherever_it_is_split(name: str) -> None:
    case = CASES[name]
    assert read(case.text) == case
    assert read(*case.text) == case
    for at in range(len(case.text)):
        assert read(case.text[:at], case.text[at:]) == case


def test_text_is_shown_as_it_comes() -> None:
    reader = ChannelReader(TOOLS, "answer")
    assert reader.push("<|channel|>analysis<|message|>Hm", is_last=False).reasoning == "Hm"
    assert reader.is_reasoning
    assert reader.push("<|end|><|start|>assistant<|channel|>final<|message|>", is_last=False).content == ""
    assert not reader.is_reasoning
    assert reader.push("Yes", is_last=False).content == "Yes"
    assert ChannelReader(TOOLS, "answer").push("No markers", is_last=False).content == "No markers"


def test_arguments_come_as_they_are_written_and_ids_follow_from_the_answer() -> None:
    reader = ChannelReader(TOOLS, "answer")
    begun = reader.push('<|channel|>commentary to=functions.now<|message|>{"a', is_last=False).calls
    assert [(call.name, call.arguments) for call in begun] == [("now", '{"a')]
    (grown,) = reader.push('": 1}', is_last=False).calls
    assert (grown.call_id, json.loads(begun[0].arguments + grown.arguments)) == ("", {"a": 1})
    again = ChannelReader(TOOLS, "answer").push("<|channel|>commentary to=functions.now<|message|>", is_last=False)
    assert again.calls[0].call_id == begun[0].call_id


def test_without_tools_a_call_is_content() -> None:
    part = ChannelReader(None, "answer").push(CALL, is_last=True)
    assert (part.content, part.calls) == ('{"city": "Ulm"}', [])
