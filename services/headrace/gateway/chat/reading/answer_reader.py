"""Reads the text of an answer into its parts."""

from headrace.gateway.chat.reading.answer_part import AnswerPart
from headrace.gateway.chat.reading.call_reader import CallReader
from headrace.gateway.chat.reading.marked_content import MarkedContent
from headrace.gateway.chat.reading.reasoning_reader import ReasoningReader


class AnswerReader:
    """Splits the text of one answer into reasoning, content and calls of tools while it arrives."""

    def __init__(
        self, reasoning: ReasoningReader | None, calls: CallReader | None, marked: MarkedContent | None = None
    ) -> None:
        """Each of these reads what the one before leaves."""
        self._reasoning = reasoning
        self._calls = calls
        self._marked = marked

    @property
    def is_reasoning(self) -> bool:
        """Whether the text so far ends in a reasoning section."""
        return self._reasoning is not None and self._reasoning.is_inside

    def push(self, text: str, is_last: bool, is_cut: bool = False) -> AnswerPart:
        """Returns the parts in a text. Nothing may follow the last. `is_cut`: whether the model would have
        written more."""
        part = AnswerPart(content=text)
        if self._reasoning is not None:
            part.reasoning, part.content = self._reasoning.push(text, is_last)
        if self._calls is not None:
            part.content, part.calls = self._calls.push(part.content, is_last, is_cut)
        if self._marked is not None:
            part.content = self._marked.push(part.content, is_last, is_cut)
        return part
