"""Facts about a chat template, read off its source without running it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from jinja2 import meta, nodes

_SYNTAXES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("deepseek-v3", re.compile("<｜tool▁calls▁begin｜>.*```json", re.DOTALL)),
    ("deepseek-v3.1", re.compile("<｜tool▁calls▁begin｜>")),
    ("mistral-args", re.compile(r"\[TOOL_CALLS\].*\[ARGS\]", re.DOTALL)),
    ("mistral", re.compile(r"\[TOOL_CALLS\]")),
    ("qwen-xml", re.compile(r"<function=.*<parameter=", re.DOTALL)),
    ("hermes", re.compile(r"<tool_call>")),
    ("pythonic", re.compile(r"\[func_name\d?\(|\[function_name\(")),
    ("llama3", re.compile(r"<\|python_tag\|>|\"parameters\": ")),
)
"""Syntaxes of tool calls, and what only templates of models trained on each contain. The first that fits counts."""
_REFUSES_SYSTEM = re.compile(r"raise_exception\(['\"]System role")
OWN_SYNTAX = "hermes"
"""Syntax that models are told to use when their template says nothing of tools."""
_REASONING = (("<think>", "</think>"), ("[THINK]", "[/THINK]"))


@dataclass(frozen=True, slots=True)
class TemplateFacts:
    """Abilities of a chat template."""

    shows_tools: bool = False
    """Whether it tells the model about tools."""
    shows_calls: bool = False
    """Whether it renders calls of tools and their results."""
    refuses_system: bool = False
    """Whether a message of the role `system` is an error."""
    has_developer: bool = False
    """Whether it knows the role `developer`."""
    tool_call_syntax: str = OWN_SYNTAX
    reasoning_start: str = ""
    reasoning_end: str = ""


def template_facts(source: str, parsed: nodes.Template) -> TemplateFacts:
    """Reads the facts of a parsed template."""
    words = set(_words(parsed))
    start, end = next((markers for markers in _REASONING if markers[1] in source), ("", ""))
    shows_tools = "tools" in meta.find_undeclared_variables(parsed)
    return TemplateFacts(
        shows_tools=shows_tools,
        shows_calls="tool_calls" in words,
        refuses_system=bool(_REFUSES_SYSTEM.search(source)),
        has_developer="developer" in words,
        tool_call_syntax=_syntax(source) if shows_tools else OWN_SYNTAX,
        reasoning_start=start,
        reasoning_end=end,
    )


def _syntax(source: str) -> str:
    # Templates write line ends and quotes inside Jinja strings, where they are escaped.
    plain = source.replace('\\"', '"')
    return next((name for name, pattern in _SYNTAXES if pattern.search(plain)), OWN_SYNTAX)


def _words(parsed: nodes.Template) -> Iterator[str]:
    """Yields the names of attributes and the texts that the template works with."""
    for node in parsed.find_all((nodes.Getattr, nodes.Const)):
        word = node.attr if isinstance(node, nodes.Getattr) else getattr(node, "value", None)
        if isinstance(word, str):
            yield word
