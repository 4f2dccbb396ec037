"""The text of one sequence: token deltas in, pieces of text out."""

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.gateway.chat.answer_style import AnswerStyle
from headrace.gateway.chat.reading.call_delta import CallDelta, joined_calls
from headrace.gateway.chat.reading.part_reader import PartReader
from headrace.gateway.job.sequence_request import SequenceRequest
from headrace.gateway.resumption.translation import singles
from headrace.gateway.text.detokenizer import Detokenizer, Vocabulary
from headrace.gateway.text.stop_text import StopFound, StopTexts
from headrace.v1.generation_pb2 import FinishReason, TokenLogprob
from headrace.v1.worker_pb2 import TokenDelta


@dataclass(slots=True)
class Piece:
    """New text and tokens of one sequence."""

    text: str = ""
    token_ids: Sequence[int] = ()
    logprobs: Sequence[TokenLogprob] = ()
    prompt_logprobs: Sequence[TokenLogprob] = ()
    """Log-probabilities of the prompt's tokens, on the first piece, if requested."""
    cached_token_count: int = 0
    finish_reason: "FinishReason.ValueType" = FinishReason.FINISH_REASON_UNSPECIFIED
    """Reason for the end, set on the last piece."""
    stop_reason: str | int | None = None
    """Stop text, or stop id other than the model's own, that ended the sequence."""
    choice_index: int = 0
    """Index of the sequence among those of its request."""
    reasoning: str = ""
    """New reasoning, which is not part of the text."""
    reasoning_token_count: int = 0
    """Tokens that came while the answer was in a reasoning section."""
    calls: Sequence[CallDelta] = ()
    """Growth of calls of tools, which are not part of the text."""
    begin: int = 0
    """Tokens of the sequence before the delta that the piece is made of."""
    end: int = 0
    """Tokens of the sequence up to the end of that delta."""

    def add(self, following: "Piece") -> None:
        """Takes in the piece that follows."""
        self.text += following.text
        self.reasoning += following.reasoning
        self.reasoning_token_count += following.reasoning_token_count
        self.token_ids = [*self.token_ids, *following.token_ids]
        self.logprobs = [*self.logprobs, *following.logprobs]
        self.prompt_logprobs = [*self.prompt_logprobs, *following.prompt_logprobs]
        self.cached_token_count = max(self.cached_token_count, following.cached_token_count)
        self.calls = joined_calls([*self.calls, *following.calls])
        self.finish_reason, self.stop_reason = following.finish_reason, following.stop_reason


class TextStream:
    """Detokenizes, searches for stop texts, and ends at the first, with the token that completes it. Text and tokens
    are the same however many tokens come at once."""

    def __init__(
        self,
        request: SequenceRequest,
        vocabulary: Vocabulary,
        choice_index: int = 0,
        style: AnswerStyle | None = None,
    ) -> None:
        self._request = request
        self._choice_index = choice_index
        self._reader = None if style is None else style.reader(choice_index)
        markers = frozenset[int]() if style is None else style.marker_token_ids()
        follows = request.prompt_token_ids if request.continues_prompt else ()
        self._detokenizer = Detokenizer(vocabulary, request.skips_special_tokens, markers, follows=follows)
        self._stops = StopTexts(request.stop_texts, request.includes_stop_text)

    def push(self, delta: TokenDelta) -> Piece:
        """Returns the text that a delta adds. Nothing may follow a piece with a finish reason."""
        if self._reader is None or len(delta.token_ids) < 2:
            return self._push(delta)
        # Which tokens are reasoning is known token by token alone.
        whole = Piece(choice_index=self._choice_index)
        for single in singles(delta):
            whole.add(self._push(single))
            if whole.finish_reason:
                break
        return whole

    def _push(self, delta: TokenDelta) -> Piece:
        token_ids, reason = list(delta.token_ids), delta.finish_reason
        text, token_count, found = self._read(token_ids, self._visible(token_ids, reason))
        piece = Piece(
            text=text,
            token_ids=token_ids[:token_count],
            logprobs=delta.logprobs[:token_count],
            prompt_logprobs=delta.prompt_logprobs,
            cached_token_count=delta.cached_token_count,
            finish_reason=reason,
            choice_index=self._choice_index,
        )
        if found is None and reason:
            rest, found = self._stops.push(self._detokenizer.flush())
            piece.text += rest + ("" if found else self._stops.flush())
            piece.stop_reason = self._stop_id(token_ids, reason)
        if found is not None:
            piece.finish_reason = FinishReason.FINISH_REASON_STOP
            piece.stop_reason = found.stop_text
        if self._reader is not None:
            _split(piece, self._reader, self._is_cut(reason, found))
        return piece

    def _read(self, token_ids: list[int], visible: list[int]) -> tuple[str, int, StopFound | None]:
        """Returns the text that may be shown, the number of tokens that it took, and the stop that ends it. Tokens are
        checked one by one where any of them may complete a stop text."""
        if not self._request.stop_texts:
            return self._detokenizer.push(visible), len(token_ids), None
        text = ""
        for index in range(len(token_ids)):
            shown, found = self._stops.push(self._detokenizer.push(visible[index : index + 1]))
            text += shown
            if found is not None:
                return text, index + 1, found
        return text, len(token_ids), None

    def _is_cut(self, reason: "FinishReason.ValueType", found: StopFound | None) -> bool:
        """Whether the text ends where the model would have written more. What a client wants to see of a stop text is
        no beginning of anything."""
        if found is not None:
            return not self._request.includes_stop_text
        return reason == FinishReason.FINISH_REASON_LENGTH

    def _visible(self, token_ids: list[int], reason: "FinishReason.ValueType") -> list[int]:
        """Returns the ids that become text. The id that ended the sequence is a marker, not text."""
        if reason == FinishReason.FINISH_REASON_STOP and not self._request.includes_stop_text:
            return token_ids[:-1]
        return token_ids

    def _stop_id(self, token_ids: list[int], reason: "FinishReason.ValueType") -> int | None:
        if reason != FinishReason.FINISH_REASON_STOP or not token_ids:
            return None
        return token_ids[-1] if token_ids[-1] in self._request.sampling.stop_token_ids else None


def _split(piece: Piece, reader: PartReader, is_cut: bool) -> None:
    """Moves reasoning and calls out of a piece's text. `is_cut`: whether the model would have written more."""
    if reader.is_reasoning:
        piece.reasoning_token_count = len(piece.token_ids)
    part = reader.push(piece.text, bool(piece.finish_reason), is_cut)
    piece.text, piece.reasoning, piece.calls = part.content, part.reasoning, part.calls
