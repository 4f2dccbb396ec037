"""Syntaxes of tool calls: what stands around the names and the arguments."""

from dataclasses import dataclass, field, replace

from headrace.gateway.chat.syntax.argument_syntax import ArgumentSyntax
from headrace.gateway.chat.syntax.json_arguments import JsonArguments
from headrace.gateway.chat.syntax.python_arguments import PythonArguments
from headrace.gateway.chat.syntax.quoted_arguments import QuotedArguments
from headrace.gateway.chat.syntax.xml_arguments import GLM, MINIMAX, QWEN, SEED


@dataclass(frozen=True, slots=True)
class CallSyntax:
    """Literal texts around calls. An answer is text, then `opening`, then calls with `separator` between them, then
    `closing`; a call is `before_name`, the name, `before_arguments`, the arguments, `after_arguments`."""

    opening: str
    """It begins with a marker that no text holds. Empty: calls can only stand for the whole answer."""
    before_name: str
    before_arguments: str
    after_arguments: str
    separator: str
    closing: str
    marker: str = ""
    """Beginning of `opening` that tells calls from text."""
    arguments: ArgumentSyntax = field(default_factory=JsonArguments)
    before_number: str = ""
    """Text between the name and the number of a call, whose id is made of both. Empty: calls have no number."""
    answer_marks: tuple[str, str] = ("", "")
    """Texts that may stand around the answer, whether it is content or calls. Empty: there are none."""

    @property
    def literals(self) -> tuple[str, ...]:
        return (
            self.opening,
            self.before_name,
            self.before_arguments,
            self.after_arguments,
            self.separator,
            self.closing,
            *self.answer_marks,
            *self.arguments.literals,
        )


HERMES = "hermes"
_HERMES = CallSyntax(
    marker="<tool_call>",
    opening="<tool_call>\n",
    before_name='{"name": "',
    before_arguments='", "arguments": ',
    after_arguments="}",
    separator="\n</tool_call>\n<tool_call>\n",
    closing="\n</tool_call>",
)
_ANSWER = ("<answer>", "</answer>")
_DEEPSEEK, _CALL, _SEP, _CALL_END, _DEEPSEEK_END = (
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁call▁begin｜>",
    "<｜tool▁sep｜>",
    "<｜tool▁call▁end｜>",
    "<｜tool▁calls▁end｜>",
)
SYNTAXES: dict[str, CallSyntax] = {
    HERMES: _HERMES,
    "llama3": CallSyntax(
        opening="",
        before_name='{"name": "',
        before_arguments='", "parameters": ',
        after_arguments="}",
        separator="; ",
        closing="",
    ),
    "mistral": CallSyntax(
        marker="[TOOL_CALLS]",
        opening="[TOOL_CALLS][",
        before_name='{"name": "',
        before_arguments='", "arguments": ',
        after_arguments="}",
        separator=", ",
        closing="]",
    ),
    "granite": CallSyntax(
        marker="<|tool_call|>",
        opening="<|tool_call|>[",
        before_name='{"name": "',
        before_arguments='", "arguments": ',
        after_arguments="}",
        separator=", ",
        closing="]",
    ),
    "hunyuan": CallSyntax(
        marker="<tool_calls>",
        opening="<tool_calls>[",
        before_name='{"name": "',
        before_arguments='", "arguments": ',
        after_arguments="}",
        separator=", ",
        closing="]</tool_calls>",
        answer_marks=_ANSWER,
    ),
    "hunyuan-hermes": replace(_HERMES, answer_marks=_ANSWER),
    "mistral-args": CallSyntax(
        marker="[TOOL_CALLS]",
        opening="[TOOL_CALLS]",
        before_name="",
        before_arguments="[ARGS]",
        after_arguments="",
        separator="[TOOL_CALLS]",
        closing="",
    ),
    "qwen-xml": CallSyntax(
        marker="<tool_call>",
        opening="<tool_call>\n",
        before_name="<function=",
        before_arguments=">\n",
        after_arguments="",
        separator="\n</tool_call>\n<tool_call>\n",
        closing="\n</tool_call>",
        arguments=QWEN,
    ),
    "minimax": CallSyntax(
        marker="<minimax:tool_call>",
        opening="<minimax:tool_call>\n",
        before_name='<invoke name="',
        before_arguments='">\n',
        after_arguments="\n",
        separator="",
        closing="</minimax:tool_call>",
        arguments=MINIMAX,
    ),
    "seed": CallSyntax(
        marker="<seed:tool_call>",
        opening="<seed:tool_call>\n",
        before_name="<function=",
        before_arguments=">\n",
        after_arguments="",
        separator="\n</seed:tool_call>\n<seed:tool_call>\n",
        closing="\n</seed:tool_call>",
        arguments=SEED,
    ),
    "glm": CallSyntax(
        marker="<tool_call>",
        opening="<tool_call>",
        before_name="",
        before_arguments="\n",
        after_arguments="",
        separator="\n<tool_call>",
        closing="",
        arguments=GLM,
    ),
    "gemma4": CallSyntax(
        marker="<|tool_call>",
        opening="<|tool_call>",
        before_name="call:",
        before_arguments="{",
        after_arguments="",
        separator="<tool_call|><|tool_call>",
        closing="<tool_call|>",
        arguments=QuotedArguments('<|"|>'),
    ),
    "lfm2": CallSyntax(
        marker="<|tool_call_start|>",
        opening="<|tool_call_start|>[",
        before_name="",
        before_arguments="(",
        after_arguments="",
        separator=", ",
        closing="]<|tool_call_end|>",
        arguments=PythonArguments(),
    ),
    "pythonic": CallSyntax(
        opening="[",
        before_name="",
        before_arguments="(",
        after_arguments="",
        separator=", ",
        closing="]",
        arguments=PythonArguments(),
    ),
    "kimi-k2": CallSyntax(
        marker="<|tool_calls_section_begin|>",
        opening="<|tool_calls_section_begin|>",
        before_name="<|tool_call_begin|>functions.",
        before_number=":",
        before_arguments="<|tool_call_argument_begin|>",
        after_arguments="<|tool_call_end|>",
        separator="",
        closing="<|tool_calls_section_end|>",
    ),
    "deepseek-v3": CallSyntax(
        marker=_DEEPSEEK,
        opening=_DEEPSEEK,
        before_name=f"{_CALL}function{_SEP}",
        before_arguments="\n```json\n",
        after_arguments=f"\n```{_CALL_END}",
        separator="\n",
        closing=_DEEPSEEK_END,
    ),
    "deepseek-v3.1": CallSyntax(
        marker=_DEEPSEEK,
        opening=_DEEPSEEK,
        before_name=_CALL,
        before_arguments=_SEP,
        after_arguments=_CALL_END,
        separator="",
        closing=_DEEPSEEK_END,
    ),
}
"""Syntaxes by the names that `AnswerFormat` of the protocol knows."""
