"""Reads the reasoning that precedes an answer."""

from collections.abc import Callable

from headrace.gateway.chat.reading.bounds import MAX_SPACE


class ReasoningReader:
    """Splits text into reasoning and what follows it, without the markers and the white space around them."""

    def __init__(self, start: str, end: str, is_open: bool) -> None:
        """`is_open`: whether the prompt ended inside a reasoning section already."""
        self._start = start
        self._end = end
        self._held = ""
        self._state: Callable[[bool], tuple[str, str]] = self._read_inside if is_open else self._read_before
        self.is_inside = is_open
        """Whether the text so far ends in a reasoning section."""
        self._has_shown = False

    def push(self, text: str, is_last: bool) -> tuple[str, str]:
        """Returns the reasoning in a text, and the rest of it."""
        self._held += text
        return self._state(is_last)

    def _read_before(self, is_last: bool) -> tuple[str, str]:
        begun = self._held.lstrip()
        if begun.startswith(self._start):
            self._held = begun[len(self._start) :]
            self._state, self.is_inside = self._read_inside, True
            return self._read_inside(is_last)
        if self._start.startswith(begun) and len(self._held) - len(begun) <= MAX_SPACE and not is_last:
            return "", ""
        self._state = self._read_answer
        return self._read_answer(is_last)

    def _read_inside(self, is_last: bool) -> tuple[str, str]:
        if not self._has_shown:
            self._held = self._held.lstrip()
        thought, found, rest = self._held.partition(self._end)
        if found:
            self._held, self.is_inside, self._has_shown = rest, False, False
            self._state = self._read_after
            return thought.rstrip(), self._read_after(is_last)[1]
        shown = thought if is_last else self._certain(thought)
        self._held = self._held[len(shown) :]
        self._has_shown = self._has_shown or bool(shown)
        return shown, ""

    def _read_after(self, is_last: bool) -> tuple[str, str]:
        self._held = self._held.lstrip()
        if self._held:
            self._state = self._read_answer
        return self._read_answer(is_last)

    def _read_answer(self, is_last: bool) -> tuple[str, str]:
        answer, self._held = self._held, ""
        return "", answer

    def _certain(self, thought: str) -> str:
        """Returns the text that cannot belong to the end marker or to the white space before it."""
        lengths = range(min(len(self._end) - 1, len(thought)), 0, -1)
        begun = next((length for length in lengths if thought.endswith(self._end[:length])), 0)
        certain = thought[: len(thought) - begun]
        shown = certain.rstrip()
        return shown if len(certain) - len(shown) <= MAX_SPACE else certain
