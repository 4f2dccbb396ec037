"""Grammar of an answer in channels."""

from headrace.gateway.chat.answer_grammar import CONTENT, AnswerGrammar
from headrace.gateway.chat.channels import channel_markers as marker
from headrace.gateway.chat.output_grammar import OutputGrammar
from headrace.gateway.chat.syntax.call_syntax import CallSyntax
from headrace.gateway.chat.syntax.lark_literals import ANYTHING
from headrace.gateway.chat.tools.tool_use import ToolUse

MAX_MESSAGES = 16
"""Maximum number of messages before the last one: a model that repeats itself would think for ever."""
CALL_SYNTAX = CallSyntax(
    opening="",
    before_name=f"{marker.COMMENTARY} to={marker.FUNCTIONS}",
    before_arguments=f" {marker.CONSTRAIN}json{marker.MESSAGE}",
    after_arguments="",
    separator="",
    closing="",
)


def add_channels(grammar: AnswerGrammar, tool_use: ToolUse | None, content: OutputGrammar | None) -> None:
    """Adds the start rule: messages of reasoning and commentary, then a call or the answer, in the form of `content` if
    the client wants one. A model ends its turn with the first call."""
    grammar.add_rule("thought", f"'{marker.ANALYSIS}{marker.MESSAGE}'", ANYTHING, f"'{marker.NEXT}'")
    grammar.add_rule("note", f"'{marker.COMMENTARY}{marker.MESSAGE}'", ANYTHING, f"'{marker.NEXT}'")
    grammar.add_rule("final", f"'{marker.FINAL}{marker.MESSAGE}'", ANYTHING if content is None else CONTENT)
    if tool_use is not None:
        grammar.add_call(CALL_SYNTAX, tool_use)
    is_required = tool_use is not None and tool_use.is_required
    ends = "call" if is_required else "final" if tool_use is None else "(final | call)"
    notes = "thought" if tool_use is None else "(thought | note)"
    grammar.add_rule("start", f"{notes}{{0,{MAX_MESSAGES}}}", ends)
