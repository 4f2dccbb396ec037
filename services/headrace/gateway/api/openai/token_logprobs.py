"""Tokens with their log-probabilities, as OpenAI's API writes them."""

from typing import Any

from headrace.gateway.text.detokenizer import Vocabulary
from headrace.v1.generation_pb2 import TokenLogprob

Json = dict[str, Any]


def finite_logprob(entry: TokenLogprob) -> float | None:
    return entry.chosen.logprob if entry.HasField("chosen") else None


def token_text(vocabulary: Vocabulary, token_id: int, by_id: bool = False) -> str:
    """Returns the text of a token, or its id as vLLM writes it: several tokens may have one text."""
    return f"token_id:{token_id}" if by_id else vocabulary.piece(token_id).decode("utf-8", "replace")


def scored_token(vocabulary: Vocabulary, token_id: int, logprob: float, by_id: bool = False) -> Json:
    text, piece = token_text(vocabulary, token_id, by_id), vocabulary.piece(token_id)
    return {"token": text, "logprob": logprob, "bytes": list(piece)}
