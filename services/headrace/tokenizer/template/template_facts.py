"""Facts about a chat template, read off its source without running it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from jinja2 import nodes

from headrace.tokenizer.template.field_uses import Use, field_uses

_SYNTAXES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("deepseek-v3", ("<｜tool▁calls▁begin｜>", "```json")),
    ("deepseek-v3.1", ("<｜tool▁calls▁begin｜>",)),
    ("mistral-args", ("[TOOL_CALLS]", "[ARGS]")),
    ("mistral", ("[TOOL_CALLS]",)),
    ("granite", ("<|tool_call|>",)),
    ("hunyuan", ("<tool_calls>",)),
    ("kimi-k2", ("<|tool_calls_section_begin|>", "<|tool_call_begin|>", "<|tool_call_argument_begin|>")),
    ("minimax", ("<minimax:tool_call>",)),
    ("seed", ("<seed:tool_call>",)),
    ("qwen-xml", ("<function=", "<parameter=")),
    ("glm", ("<tool_call>", "<arg_key>", "<arg_value>")),
    ("gemma4", ("<|tool_call>call:",)),
    ("hermes", ("<tool_call>",)),
    ("lfm2", ("<|tool_list_start|>",)),
    ("lfm2", ("List of tools: [",)),
    ("pythonic", ("[func_name1(",)),
    ("pythonic", ("[func_name(",)),
    ("pythonic", ("[function_name(",)),
    ("llama3", ("<|python_tag|>",)),
    ("llama3", ('"parameters": ',)),
)
"""Syntaxes of tool calls, and what only templates of models trained on each contain, one behind the other. The first
that fits counts."""
_REFUSES_SYSTEM = re.compile(r"raise_exception\(['\"]System role")
OWN_SYNTAX = "hermes"
"""Syntax that models are instructed to use when their template does not mention tools."""
_REASONING = (
    ("<|channel|>analysis<|message|>", "<|end|>"),
    ("<seed:think>", "</seed:think>"),
    ("<think>", "</think>"),
    ("[THINK]", "[/THINK]"),
    ("<|channel>thought", "<channel|>"),
)
_MARKS_ANSWERS = (("<|startoftext|>", "<|extra_4|>"), ("<｜hy_Assistant｜>", "<｜hy_place▁holder▁no▁3｜>"))
"""Tokens of Hunyuan-A13B and of the smaller models, in any order: both put marks around their answers, and their
templates say nothing of that."""
_OWN_WITH_MARKS = "hunyuan-hermes"
HARMONY, _CHANNELS = "harmony", ("<|channel|>", "<|message|>")
"""Format of answers in channels, of calls and of all else, and what its templates contain."""


@dataclass(frozen=True, slots=True)
class TemplateFacts:
    """Abilities of a chat template."""

    shows_tools: bool = False
    """Whether it tells the model about tools."""
    shows_calls: bool = False
    """Whether it renders calls of tools and their results."""
    has_tool_role: bool = False
    """Whether it knows the role `tool`, beside tools."""
    refuses_system: bool = False
    """Whether a message of the role `system` is an error."""
    has_developer: bool = False
    """Whether it knows the role `developer`."""
    reads_parts: bool = False
    """Whether it reads content as a list of parts, and not as a text."""
    reads_some_parts: bool = False
    """Whether it reads the content of some messages so, by their roles, and that of others as a text."""
    knows_no_content: bool = False
    """Whether it asks if there is content at all."""
    joins_arguments: bool = False
    """Whether it joins the arguments of calls to texts, and does not read them as an object."""
    tool_call_syntax: str = OWN_SYNTAX
    reasoning_start: str = ""
    reasoning_end: str = ""
    has_pair_roles: bool = False
    """Whether it knows the roles `query` and `document`, of a pair that is scored."""


def template_facts(source: str, parsed: nodes.Template) -> TemplateFacts:
    """Reads the facts of a parsed template."""
    words = set(_words(parsed))
    has_channels = _follow(source, _CHANNELS)
    known = _REASONING[:1] if has_channels else _REASONING[1:]
    start, end = next((markers for markers in known if markers[1] in source), ("", ""))
    # Jinja's own search for variables generates code, for which it computes all constants of a stranger's template.
    shows_tools = any(name.name == "tools" and name.ctx == "load" for name in parsed.find_all(nodes.Name))
    content, arguments = field_uses(parsed, "content"), field_uses(parsed, "arguments")
    return TemplateFacts(
        shows_tools=shows_tools,
        shows_calls="tool_calls" in words,
        has_tool_role=shows_tools and "tool" in words,
        refuses_system=bool(_REFUSES_SYSTEM.search(source)),
        has_developer="developer" in words,
        reads_parts=Use.PARTS in content and not content & {Use.STRING_TEST, Use.TEXT},
        reads_some_parts=content >= {Use.PARTS, Use.TEXT} and Use.STRING_TEST not in content,
        knows_no_content=Use.NONE_TEST in content,
        joins_arguments=Use.TEXT in arguments and not arguments & {Use.OBJECT, Use.STRING_TEST},
        tool_call_syntax=HARMONY if has_channels else _syntax(source, shows_tools),
        reasoning_start=start,
        reasoning_end=end,
        has_pair_roles={"query", "document"} <= words,
    )


def _syntax(source: str, shows_tools: bool) -> str:
    # Templates write line ends and quotes inside Jinja strings, where they are escaped.
    plain = source.replace('\\"', '"')
    known = _SYNTAXES if shows_tools else ()
    found = next((name for name, parts in known if _follow(plain, parts)), OWN_SYNTAX)
    has_marks = any(all(token in source for token in tokens) for tokens in _MARKS_ANSWERS)
    return _OWN_WITH_MARKS if has_marks and found == OWN_SYNTAX else found


def _follow(text: str, parts: tuple[str, ...]) -> bool:
    """Whether the parts stand in a text one behind the other."""
    at = 0
    for part in parts:
        at = text.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return True


def _words(parsed: nodes.Template) -> Iterator[str]:
    """Yields the names of attributes and the texts that the template works with."""
    for node in parsed.find_all((nodes.Getattr, nodes.Const)):
        word = node.attr if isinstance(node, nodes.Getattr) else getattr(node, "value", None)
        if isinstance(word, str):
            yield word
