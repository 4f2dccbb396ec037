"""Protocol of what takes answers apart."""

from typing import Protocol

from headrace.gateway.chat.reading.answer_part import AnswerPart


class PartReader(Protocol):
    """Splits the text of one answer into its parts while it arrives."""

    @property
    def is_reasoning(self) -> bool:
        """Whether the text so far ends in reasoning."""
        ...

    def push(self, text: str, is_last: bool, is_cut: bool = False) -> AnswerPart:
        """Returns the parts in a text. Nothing may follow the last. `is_cut`: whether the model would have
        written more."""
        ...
