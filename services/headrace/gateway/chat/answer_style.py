"""Style of one answer: what a model may write in it, and how that is read."""

import secrets
from dataclasses import dataclass

from headrace.gateway.chat.answer_grammar import AnswerGrammar
from headrace.gateway.chat.channel_grammar import add_channels
from headrace.gateway.chat.channels import channel_markers
from headrace.gateway.chat.channels.channel_reader import ChannelReader
from headrace.gateway.chat.output_grammar import OutputGrammar
from headrace.gateway.chat.reading.answer_reader import AnswerReader
from headrace.gateway.chat.reading.call_delta import ID_BYTES
from headrace.gateway.chat.reading.call_reader import CallReader
from headrace.gateway.chat.reading.marked_content import MarkedContent
from headrace.gateway.chat.reading.part_reader import PartReader
from headrace.gateway.chat.reading.reasoning_reader import ReasoningReader
from headrace.gateway.chat.syntax.call_syntax import HERMES, SYNTAXES, CallSyntax
from headrace.gateway.chat.syntax.lark_literals import LarkLiterals
from headrace.gateway.chat.tools.tool_use import ToolUse
from headrace.gateway.text.detokenizer import Vocabulary

_GRAMMAR_PARAMETER = "tools"


@dataclass(frozen=True, slots=True)
class AnswerStyle:
    """Everything that decides the parts of an answer."""

    vocabulary: Vocabulary
    tool_use: ToolUse | None = None
    opens_reasoning: bool = False
    """Whether the prompt ends inside a reasoning section."""
    answer_id: str = ""
    """Id of the answer, of which the ids of its calls are made."""
    past_call_ids: frozenset[str] = frozenset()
    """Ids of the calls before the answer."""

    @property
    def is_plain(self) -> bool:
        """Whether answers are content alone."""
        return self.tool_use is None and not self.vocabulary.answer_format.reasoning_end

    def marker_token_ids(self) -> frozenset[int]:
        """Returns the special tokens that the reader must see: they are otherwise left out of text."""
        return frozenset() if self.is_plain else self._literals().special_token_ids

    def reader(self, choice_index: int = 0) -> PartReader | None:
        """Returns a reader for one of the answers to a request, or None where there is nothing to tell apart."""
        if self.is_plain:
            return None
        form = self.vocabulary.answer_format
        if self._has_channels:
            return ChannelReader(self.tool_use, f"{self.answer_id or secrets.token_hex(ID_BYTES)}-{choice_index}")
        reasons, (start, end) = bool(form.reasoning_end), self._syntax.answer_marks
        return AnswerReader(
            ReasoningReader(form.reasoning_start, form.reasoning_end, self.opens_reasoning) if reasons else None,
            None if self.tool_use is None else self._call_reader(self.tool_use, choice_index),
            MarkedContent(start, end) if end else None,
        )

    def grammar(self, wanted: OutputGrammar | None) -> OutputGrammar | None:
        """Returns the grammar of the whole answer when the client wants `wanted` of its content. Raises Unsupported."""
        if self.is_plain or (self.tool_use is None and wanted is None):
            return wanted
        grammar = AnswerGrammar(self._literals(), self._syntax.answer_marks)
        if wanted is not None:
            grammar.add_content(wanted)
        parameter = _GRAMMAR_PARAMETER if wanted is None else wanted.parameter
        if self._has_channels:
            add_channels(grammar, self.tool_use, wanted)
            return grammar.written(parameter)
        if self.tool_use is not None:
            grammar.add_calls(self._syntax, self.tool_use, wanted)
        answer = "content" if self.tool_use is None else "answer"
        form = self.vocabulary.answer_format
        if form.reasoning_end:
            grammar.add_thought(form.reasoning_start, form.reasoning_end, self.opens_reasoning, answer)
        else:
            grammar.start_with(answer)
        return grammar.written(parameter)

    def _call_reader(self, tool_use: ToolUse, choice_index: int) -> CallReader:
        answer_id = self.answer_id and f"{self.answer_id}-{choice_index}"
        return CallReader(self._syntax, tool_use, answer_id, self.past_call_ids)

    @property
    def _has_channels(self) -> bool:
        return self.vocabulary.answer_format.tool_call_syntax == channel_markers.HARMONY

    @property
    def _syntax(self) -> CallSyntax:
        return SYNTAXES.get(self.vocabulary.answer_format.tool_call_syntax, SYNTAXES[HERMES])

    def _literals(self) -> LarkLiterals:
        form = self.vocabulary.answer_format
        if self._has_channels:
            return LarkLiterals(self.vocabulary, channel_markers.ALL)
        calls = self._syntax.literals if self.tool_use is not None else self._syntax.answer_marks
        return LarkLiterals(self.vocabulary, [*calls, form.reasoning_start, form.reasoning_end])
