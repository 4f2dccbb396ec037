"""Answers of /v1/chat/completions."""

from collections.abc import Sequence

from headrace.gateway.api.openai.response import Choice, ResponseFormat
from headrace.gateway.api.openai.schema import ChatBody
from headrace.gateway.api.openai.token_logprobs import Json, scored_token
from headrace.gateway.chat.reading.call_delta import CallDelta
from headrace.gateway.delivery.text_stream import Piece
from headrace.gateway.job.job import Job
from headrace.v1.generation_pb2 import ScoredToken, TokenLogprob


class ChatFormat(ResponseFormat):
    """Format of /v1/chat/completions."""

    object_name = "chat.completion"
    chunk_object_name = "chat.completion.chunk"

    has_prompt_per_choice = False

    def __init__(self, job: Job, response_id: str, body: ChatBody) -> None:
        super().__init__(job, response_id, body)
        self._shows_reasoning = body.include_reasoning is not False
        last = body.messages[-1]
        self._echo = last.text if body.echo and last.role == "assistant" else ""

    def opening(self, choice: Choice) -> Json | None:
        delta = {"role": "assistant", "content": self._echo}
        return {"index": choice.index, "delta": delta, "logprobs": None, "finish_reason": None}

    def _choice(self, choice: Choice) -> Json:
        text = self._echo + "".join(choice.text)
        message: Json = {
            "role": "assistant",
            "content": text or (None if self._calls_tools(choice) else ""),
            "refusal": None,
        }
        message |= self._reasoning("".join(choice.reasoning))
        message |= {"tool_calls": choice.calls} if choice.calls else {}
        return {"index": choice.index, "message": message, "logprobs": self._logprobs(choice.logprobs)}

    def _calls_tools(self, choice: Choice) -> bool:
        use = self._job.options.tool_use
        return bool(choice.calls) or (use is not None and use.is_required)

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
        content = [
            self._scored(entry.chosen) | {"top_logprobs": [self._scored(top) for top in entry.alternatives]}
            for entry in entries
        ]
        return {"content": content, "refusal": None}

    def _scored(self, token: ScoredToken) -> Json:
        return scored_token(self._job.vocabulary, token.token_id, token.logprob, self._names_by_id)


def _call(delta: CallDelta) -> Json:
    if not delta.call_id:
        return {"index": delta.index, "function": {"arguments": delta.arguments}}
    function = {"name": delta.name, "arguments": delta.arguments}
    return {"index": delta.index, "id": delta.call_id, "type": "function", "function": function}
