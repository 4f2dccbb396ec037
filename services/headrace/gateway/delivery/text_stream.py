"""The text of one sequence: token deltas in, pieces of text out."""

from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, field

from headrace.gateway.request.sequence_request import SequenceRequest
from headrace.gateway.text.detokenizer import Detokenizer, Vocabulary
from headrace.gateway.text.stop_text import StopFound, StopTexts
from headrace.v1.generation_pb2 import FinishReason, TokenLogprob
from headrace.v1.worker_pb2 import TokenDelta


@dataclass(slots=True)
class Piece:
    """New text and tokens of one sequence."""

    text: str = ""
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    prompt_logprobs: list[TokenLogprob] = field(default_factory=list)
    """Log-probabilities of the prompt's tokens, with the first piece, where asked for."""
    cached_token_count: int = 0
    finish_reason: "FinishReason.ValueType" = FinishReason.FINISH_REASON_UNSPECIFIED
    """Reason for the end, set on the last piece."""
    stop_reason: str | int | None = None
    """The stop text, or the stop id other than the model's own, that ended it."""


async def text_pieces(
    deltas: AsyncIterator[TokenDelta], request: SequenceRequest, vocabulary: Vocabulary
) -> AsyncGenerator[Piece, None]:
    """Detokenises, looks for stop texts, and stops reading at the first, with the token that completes it: however many
    tokens come at once, text and tokens are the same."""
    detokenizer = Detokenizer(vocabulary, request.skips_special_tokens)
    stops = StopTexts(request.stop_texts, request.includes_stop_text)
    async for delta in deltas:
        visible = _visible_ids(delta, request)
        piece = Piece(
            prompt_logprobs=list(delta.prompt_logprobs),
            cached_token_count=delta.cached_token_count,
            finish_reason=delta.finish_reason,
        )
        found: StopFound | None = None
        for part in _parts(len(delta.token_ids), request):
            piece.token_ids += delta.token_ids[part]
            shown, found = stops.push(detokenizer.push(visible[part]))
            piece.text += shown
            if found is not None:
                break
        piece.logprobs = list(delta.logprobs[: len(piece.token_ids)])
        if found is None and delta.finish_reason:
            rest, found = stops.push(detokenizer.flush())
            piece.text += rest + ("" if found else stops.flush())
            piece.stop_reason = _stop_id(delta, request)
        if found is not None:
            piece.finish_reason = FinishReason.FINISH_REASON_STOP
            piece.stop_reason = found.stop_text
        yield piece
        if piece.finish_reason:
            return


def _parts(token_count: int, request: SequenceRequest) -> list[slice]:
    """The tokens that are looked at together: each alone where any of them may complete a stop text."""
    if not request.stop_texts:
        return [slice(0, token_count)]
    return [slice(index, index + 1) for index in range(token_count)]


def _visible_ids(delta: TokenDelta, request: SequenceRequest) -> list[int]:
    """The ids that become text. The id that ended the sequence is a mark, not text."""
    token_ids = list(delta.token_ids)
    if delta.finish_reason == FinishReason.FINISH_REASON_STOP and token_ids and not request.includes_stop_text:
        return token_ids[:-1]
    return token_ids


def _stop_id(delta: TokenDelta, request: SequenceRequest) -> int | None:
    if delta.finish_reason != FinishReason.FINISH_REASON_STOP or not delta.token_ids:
        return None
    last = delta.token_ids[-1]
    return last if last in request.sampling_params.stop_token_ids else None
