"""Answers of /v1/chat/completions."""

from collections.abc import Sequence

from headrace.gateway.chat.reading.call_delta import CallDelta
from headrace.gateway.delivery.text_stream import Piece
from headrace.gateway.openai.response import Choice, ResponseFormat
from headrace.gateway.openai.token_logprobs import Json, scored_token
from headrace.gateway.request.job import Job
from headrace.v1.generation_pb2 import TokenLogprob


class ChatFormat(ResponseFormat):
    """Format of /v1/chat/completions."""

    object_name = "chat.completion"
    chunk_object_name = "chat.completion.chunk"

    def __init__(self, job: Job, response_id: str, returns_token_ids: bool, shows_reasoning: bool) -> None:
        super().__init__(job, response_id, returns_token_ids)
        self._shows_reasoning = shows_reasoning

    def opening(self, choice: Choice) -> Json | None:
        delta = {"role": "assistant", "content": ""}
        return {"index": choice.index, "delta": delta, "logprobs": None, "finish_reason": None}

    def _choice(self, choice: Choice) -> Json:
        text = "".join(choice.text)
        message: Json = {"role": "assistant", "content": None if choice.calls and not text else text, "refusal": None}
        message |= self._reasoning("".join(choice.reasoning))
        message |= {"tool_calls": choice.calls} if choice.calls else {}
        return {"index": choice.index, "message": message, "logprobs": self._logprobs(choice.logprobs)}

    def _delta(self, choice: Choice, piece: Piece, is_first: bool) -> Json:
        delta: Json = {"content": piece.text} if piece.text else {}
        delta |= self._reasoning(piece.reasoning)
        delta |= {"tool_calls": [_call(call) for call in piece.calls]} if piece.calls else {}
        return {"index": choice.index, "delta": delta, "logprobs": self._logprobs(piece.logprobs)}

    def _reasoning(self, text: str) -> Json:
        """Returns reasoning under both names that clients read."""
        return {"reasoning": text, "reasoning_content": text} if text and self._shows_reasoning else {}

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


def _call(delta: CallDelta) -> Json:
    if not delta.call_id:
        return {"index": delta.index, "function": {"arguments": delta.arguments}}
    function = {"name": delta.name, "arguments": delta.arguments}
    return {"index": delta.index, "id": delta.call_id, "type": "function", "function": function}
