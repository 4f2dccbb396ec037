"""Answers of /v1/chat/completions."""

from collections.abc import Sequence

from headrace.gateway.delivery.text_stream import Piece
from headrace.gateway.openai.response import Choice, ResponseFormat
from headrace.gateway.openai.token_logprobs import Json, scored_token
from headrace.v1.generation_pb2 import TokenLogprob


class ChatFormat(ResponseFormat):
    """Format of /v1/chat/completions."""

    object_name = "chat.completion"
    chunk_object_name = "chat.completion.chunk"

    def opening(self, choice: Choice) -> Json | None:
        delta = {"role": "assistant", "content": ""}
        return {"index": choice.index, "delta": delta, "logprobs": None, "finish_reason": None}

    def _choice(self, choice: Choice) -> Json:
        message = {"role": "assistant", "content": "".join(choice.text), "refusal": None}
        return {"index": choice.index, "message": message, "logprobs": self._logprobs(choice.logprobs)}

    def _delta(self, choice: Choice, piece: Piece, is_first: bool) -> Json:
        delta = {"content": piece.text} if piece.text else {}
        return {"index": choice.index, "delta": delta, "logprobs": self._logprobs(piece.logprobs)}

    def _logprobs(self, entries: Sequence[TokenLogprob]) -> Json | None:
        if not entries:
            return None
        vocabulary = self._job.vocabulary
        content = [
            scored_token(vocabulary, entry.chosen.token_id, entry.chosen.logprob)
            | {"top_logprobs": [scored_token(vocabulary, top.token_id, top.logprob) for top in entry.alternatives]}
            for entry in entries
        ]
        return {"content": content, "refusal": None}
