"""Objects whose texts stand between quotes of the model's own."""

import json
import re
from typing import Any

_BARE = re.compile(r"[^,\]}]*")
_NAME = re.compile(r"\s*([^:]*?)\s*:")


class QuotedObject:
    """Reads the inside of an object: names and values with commas between them."""

    def __init__(self, text: str, quote: str) -> None:
        self._text = text
        self._quote = quote
        self._at = 0

    def read(self) -> dict[str, Any]:
        """Returns the object. Raises ValueError for a text that is none."""
        found = self._members("")
        if self._at < len(self._text):
            raise ValueError(f"{self._text[self._at :]!r} follows the object")
        return found

    def _members(self, end: str) -> dict[str, Any]:
        """Reads names and values up to `end`, or to the end of the text where that is empty."""
        found: dict[str, Any] = {}
        while not self._takes(end):
            name = _NAME.match(self._text, self._at)
            if name is None:
                raise ValueError(f"{self._text[self._at :]!r} has no name")
            self._at = name.end()
            found[name[1].removeprefix(self._quote).removesuffix(self._quote)] = self._value()
            self._skip_comma()
        return found

    def _elements(self) -> list[Any]:
        found: list[Any] = []
        while not self._takes("]"):
            found.append(self._value())
            self._skip_comma()
        return found

    def _value(self) -> Any:
        self._skip_space()
        if self._takes(self._quote):
            return self._quoted()
        if self._takes("{"):
            return self._members("}")
        if self._takes("["):
            return self._elements()
        bare = _BARE.match(self._text, self._at)
        written = "" if bare is None else bare[0].strip()
        if not written:
            raise ValueError(f"{self._text[self._at :]!r} is no value")
        self._at += len(bare[0]) if bare is not None else 0
        try:
            return json.loads(written)
        except ValueError:
            return written

    def _quoted(self) -> str:
        end = self._text.find(self._quote, self._at)
        if end < 0:
            raise ValueError("a text has no end")
        found, self._at = self._text[self._at : end], end + len(self._quote)
        return found

    def _takes(self, wanted: str) -> bool:
        """Passes over a text if it comes next. The empty one is the end."""
        self._skip_space()
        is_next = self._text.startswith(wanted, self._at) if wanted else self._at >= len(self._text)
        self._at += len(wanted) if is_next else 0
        return is_next

    def _skip_comma(self) -> None:
        self._skip_space()
        self._at += self._text.startswith(",", self._at)

    def _skip_space(self) -> None:
        while self._at < len(self._text) and self._text[self._at].isspace():
            self._at += 1
