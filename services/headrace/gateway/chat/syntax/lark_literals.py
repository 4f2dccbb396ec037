"""Literal texts in Lark grammars."""

import json
import re
from collections.abc import Sequence

from headrace.gateway.text.detokenizer import Vocabulary

ANYTHING = "/(.|\\n)*/"
"""Expression that matches any text. It matches no special token."""


class LarkLiterals:
    """Writes texts as Lark, with special tokens by their ids: a grammar's plain text never matches a special token."""

    def __init__(self, vocabulary: Vocabulary, texts: Sequence[str]) -> None:
        """`texts`: all that may be written."""
        joined = "\0".join(texts)
        named = {
            vocabulary.piece(token_id).decode("utf-8", "replace"): token_id for token_id in vocabulary.special_token_ids
        }
        self._special = {name: token_id for name, token_id in named.items() if name and name in joined}
        longest_first = sorted(self._special, key=len, reverse=True)
        self._pattern = re.compile("(" + "|".join(map(re.escape, longest_first)) + ")") if self._special else None

    @property
    def special_token_ids(self) -> frozenset[int]:
        """Special tokens that stand in the texts."""
        return frozenset(self._special.values())

    def is_special(self, text: str) -> bool:
        """Whether the text is one special token."""
        return text in self._special

    def write(self, text: str) -> str:
        """Returns the Lark expression that matches `text`, which may be empty."""
        parts = self._pattern.split(text) if self._pattern is not None else [text]
        return " ".join(self._write_part(part) for part in parts if part)

    def anything_until(self, rule: str, text: str) -> str:
        """Returns a Lark rule that matches any text up to `text`, and `text` itself."""
        if self._pattern is not None and self._pattern.match(text):
            return f"{rule}: {ANYTHING} {self.write(text)}"
        return f"{rule}[suffix={json.dumps(text, ensure_ascii=False)}]: {ANYTHING}"

    def _write_part(self, part: str) -> str:
        return f"<[{self._special[part]}]>" if part in self._special else json.dumps(part, ensure_ascii=False)
