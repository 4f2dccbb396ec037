"""Text from token ids as they arrive: complete characters only."""

import codecs
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from headrace.gateway.text.answer_format import AnswerFormat


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Facts about a model's tokenizer that the gateway needs."""

    pieces: tuple[bytes, ...]
    """The bytes of each token, by id."""
    special_token_ids: frozenset[int]
    strips_leading_space: bool
    has_chat_template: bool
    answer_format: AnswerFormat = field(default_factory=AnswerFormat)
    eos_token_ids: tuple[int, ...] = ()

    def piece(self, token_id: int) -> bytes:
        """Returns the bytes of a token. Ids beyond the tokenizer, which padded models have, stand for nothing."""
        return self.pieces[token_id] if 0 <= token_id < len(self.pieces) else b""


class Detokenizer:
    """Holds back the bytes of an unfinished character until the rest arrives."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        skips_special_tokens: bool,
        shown_token_ids: frozenset[int] = frozenset(),
        *,
        follows: Iterable[int] = (),
    ) -> None:
        """`shown_token_ids`: special tokens that become text all the same. `follows`: tokens whose text this one
        continues, so that its first space is a space between words."""
        self._vocabulary = vocabulary
        self._hidden = vocabulary.special_token_ids - shown_token_ids if skips_special_tokens else frozenset[int]()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._at_start = vocabulary.strips_leading_space and all(token_id in self._hidden for token_id in follows)

    def push(self, token_ids: Sequence[int]) -> str:
        """Returns the characters that these tokens complete."""
        return self._trim(self._decoder.decode(self._bytes(token_ids)))

    def flush(self) -> str:
        """Returns the text left at the end; bytes that never became a character turn into U+FFFD."""
        return self._trim(self._decoder.decode(b"", final=True))

    def _bytes(self, token_ids: Sequence[int]) -> bytes:
        piece = self._vocabulary.piece
        return b"".join(piece(token_id) for token_id in token_ids if token_id not in self._hidden)

    def _trim(self, text: str) -> str:
        if self._at_start and text:
            self._at_start = False
            return text.removeprefix(" ")
        return text
