"""Content between marks, as Hunyuan writes it: <answer>, the content, </answer>."""

from headrace.gateway.chat.reading.bounds import MAX_SPACE

_CERTAIN = 2
"""Characters of a mark that was cut off which no text is taken to end with."""


class MarkedContent:
    """Takes off the marks around content, and the white space within them, while it arrives. Either may be missing.
    Marks elsewhere are text."""

    def __init__(self, start: str, end: str) -> None:
        self._start = start
        self._end = end
        self._held = ""
        self._has_begun = False
        self._is_marked = False
        self._has_shown = False

    def push(self, text: str, is_last: bool, is_cut: bool = False) -> str:
        """Returns the content in a text. `is_cut`: whether the model would have written more, so that the beginning of
        a mark is one."""
        self._held += text
        if not self._has_begun and not self._begin(is_last, is_cut):
            return ""
        if self._is_marked and not self._has_shown:
            self._held = self._held.lstrip()
        if is_last:
            return self._take(self._content_length(self._least(is_cut)))
        return self._take(self._certain_length())

    def _begin(self, is_last: bool, is_cut: bool) -> bool:
        """Decides whether the content is marked. Returns whether that is certain."""
        begun = self._held.lstrip()
        may_be_mark = self._start.startswith(begun) and begun != self._start
        if may_be_mark and not is_last and len(self._held) - len(begun) <= MAX_SPACE:
            return False
        if may_be_mark and is_cut:
            self._held = ""
        self._has_begun = True
        if begun.startswith(self._start):
            self._is_marked, self._held = True, begun[len(self._start) :]
        return True

    def _least(self, is_cut: bool) -> int:
        """Returns the number of characters that make an end mark where the text ends: fewer where one is likely."""
        if is_cut and self._held.endswith(f"\n{self._end[:1]}"):
            return 1
        return _CERTAIN if self._is_marked or is_cut else len(self._end)

    def _content_length(self, least: int) -> int:
        """Returns the length of the text held before the end mark, of which `least` characters are there."""
        body = self._held.rstrip()
        for length in range(len(self._end), least - 1, -1):
            # White space follows a whole mark alone.
            if body.endswith(self._end[:length]) and (length == len(self._end) or body == self._held):
                return len(body[:-length].rstrip())
        return len(self._held)

    def _certain_length(self) -> int:
        """Returns the length of the text held that belongs neither to an end mark nor to the space before it."""
        length = min(self._content_length(1), len(self._held.rstrip()))
        return length if len(self._held) - length <= MAX_SPACE + len(self._end) else len(self._held)

    def _take(self, length: int) -> str:
        shown, self._held = self._held[:length], self._held[length:]
        self._has_shown = self._has_shown or bool(shown)
        return shown
