"""Tokens with their log-probabilities, as OpenAI's API writes them."""

from typing import Any

from headrace.gateway.text.detokenizer import Vocabulary
from headrace.v1.generation_pb2 import TokenLogprob

Json = dict[str, Any]


def finite_logprob(entry: TokenLogprob) -> float | None:
    return entry.chosen.logprob if entry.HasField("chosen") else None


def token_text(vocabulary: Vocabulary, token_id: int) -> str:
    return vocabulary.piece(token_id).decode("utf-8", "replace")


def scored_token(vocabulary: Vocabulary, token_id: int, logprob: float) -> Json:
    piece = vocabulary.piece(token_id)
    return {"token": piece.decode("utf-8", "replace"), "logprob": logprob, "bytes": list(piece)}
