"""Response bodies of OpenAI's API: whole ones, and the chunks of streams."""

import hashlib
import secrets
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

from headrace.gateway.api.openai.schema import Body, StreamOptions
from headrace.gateway.api.openai.token_logprobs import Json
from headrace.gateway.chat.reading.call_delta import CallDelta
from headrace.gateway.delivery.text_stream import Piece
from headrace.gateway.fleet.model_facts import ModelFacts
from headrace.gateway.job.job import Job
from headrace.v1.generation_pb2 import FinishReason, TokenLogprob

CONTENT_FILTER = "content_filter"
FINISH_NAMES: dict[int, str | None] = {
    FinishReason.FINISH_REASON_UNSPECIFIED: None,
    FinishReason.FINISH_REASON_STOP: "stop",
    FinishReason.FINISH_REASON_LENGTH: "length",
    FinishReason.FINISH_REASON_CANCELLED: "stop",
    FinishReason.FINISH_REASON_CONTENT_FILTER: CONTENT_FILTER,
}
PADDED_LENGTH = 64
FINGERPRINT_LENGTH = 10
TOOL_CALLS = "tool_calls"
"""Name of the reason for which an answer ends that calls tools."""


@dataclass(slots=True)
class Choice:
    """Output of one sequence so far."""

    index: int
    prompt: list[int]
    is_first_of_prompt: bool
    text: list[str] = field(default_factory=list)
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    prompt_logprobs: list[TokenLogprob] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    reasoning_token_count: int = 0
    calls: list[Json] = field(default_factory=list)
    """Calls of tools, as OpenAI's API writes them."""
    has_started: bool = False
    cached_token_count: int = 0
    finish_name: str | None = None
    stop_reason: str | int | None = None

    def add(self, piece: Piece) -> None:
        self.has_started = True
        self.text.append(piece.text)
        self.reasoning.append(piece.reasoning)
        self.reasoning_token_count += piece.reasoning_token_count
        for delta in piece.calls:
            self._add_call(delta)
        self.token_ids += piece.token_ids
        self.logprobs += piece.logprobs
        self.prompt_logprobs += piece.prompt_logprobs
        self.cached_token_count = max(self.cached_token_count, piece.cached_token_count)
        self.finish_name = self.finish_name_of(piece)
        self.stop_reason = piece.stop_reason

    def finish_name_of(self, piece: Piece) -> str | None:
        """Returns the name of the reason for which a piece ends the sequence, if it does."""
        name = FINISH_NAMES[piece.finish_reason]
        return TOOL_CALLS if name == "stop" and (self.calls or piece.calls) else name

    def _add_call(self, delta: CallDelta) -> None:
        if delta.call_id:
            function = {"name": delta.name, "arguments": ""}
            self.calls.append({"id": delta.call_id, "type": "function", "function": function})
        self.calls[delta.index]["function"]["arguments"] += delta.arguments


def usage_of(choices: Sequence[Choice]) -> Json:
    """Counts the tokens of all choices. Each prompt counts once, however often it was continued."""
    prompt_count = sum(len(choice.prompt) for choice in choices if choice.is_first_of_prompt)
    output_count = sum(len(choice.token_ids) for choice in choices)
    cached_count = sum(choice.cached_token_count for choice in choices if choice.is_first_of_prompt)
    reasoning_count = sum(choice.reasoning_token_count for choice in choices)
    return {
        "prompt_tokens": prompt_count,
        "completion_tokens": output_count,
        "total_tokens": prompt_count + output_count,
        "prompt_tokens_details": {"cached_tokens": cached_count},
        "completion_tokens_details": {"reasoning_tokens": reasoning_count},
    }


def fingerprint_of(model: ModelFacts) -> str:
    """Names the weights that made an answer: with the same, a seed gives the same text."""
    digest = hashlib.sha256((model.fingerprint or model.model).encode()).hexdigest()
    return f"fp_{digest[:FINGERPRINT_LENGTH]}"


def _padding(choice: Json) -> str:
    """Random text that fills a chunk up to one of a few sizes."""
    text = str(choice.get("delta") or choice.get("text"))
    return secrets.token_urlsafe(PADDED_LENGTH)[: -len(text) % PADDED_LENGTH]


class ResponseFormat(ABC):
    """Format in which one of the two generation APIs writes its results."""

    object_name: str
    chunk_object_name: str
    has_prompt_per_choice: bool
    """Whether the choices of one answer may follow several prompts, whose token ids then stand in them."""

    def __init__(self, job: Job, response_id: str, body: Body) -> None:
        self._job = job
        self.response_id = response_id
        self._returns_token_ids = bool(body.return_token_ids)
        self._names_by_id = bool(body.return_tokens_as_token_ids)
        self._head: Json = {
            "id": response_id,
            "created": int(job.envelope.answer.created),
            "model": job.model.model,
            "system_fingerprint": fingerprint_of(job.model),
        }

    def choices(self) -> list[Choice]:
        """Returns the choices of the response, by index, before any piece of them has arrived."""
        prompts, count = self._job.prompts, self._job.options.choice_count
        return [Choice(index, prompts[index // count], index % count == 0) for index in range(len(prompts) * count)]

    def whole(self, choices: Sequence[Choice]) -> Json:
        """The body of a response that is not streamed."""
        return {
            **self._head,
            "object": self.object_name,
            "choices": [self._with_ids(self._choice(choice), choice) for choice in choices],
            "usage": usage_of(choices),
            **self._prompt_ids(),
        }

    def opening(self, choice: Choice) -> Json | None:
        """Returns the choice of a chunk before the first token, or None if there is none."""
        return None

    def chunk(self, choice: Json, choices: Sequence[Choice], streaming: StreamOptions) -> Json:
        """The body of a chunk, with what the client wants in each."""
        is_first = not any(other.has_started for other in choices)
        body: Json = {**self._head, "object": self.chunk_object_name, "choices": [choice]}
        body |= self._prompt_ids() if is_first else {}
        if streaming.include_usage and streaming.continuous_usage_stats:
            body["usage"] = usage_of(choices)
        elif streaming.include_usage:
            body["usage"] = None
        if streaming.include_obfuscation:
            body["obfuscation"] = _padding(choice)
        return body

    def usage_chunk(self, choices: Sequence[Choice]) -> Json:
        return {**self._head, "object": self.chunk_object_name, "choices": [], "usage": usage_of(choices)}

    def closing_chunk(self) -> Json:
        """Returns a chunk without choices, for facts about the whole stream at its end."""
        return {**self._head, "object": self.chunk_object_name, "choices": []}

    def delta(self, choice: Choice, piece: Piece) -> Json:
        """Returns the choice of a chunk with what `piece` added. Called before the choice takes the piece in."""
        is_first = not choice.has_started
        body = self._delta(choice, piece, is_first)
        body["finish_reason"] = choice.finish_name_of(piece)
        if piece.finish_reason:
            body["stop_reason"] = piece.stop_reason
        if self._returns_token_ids:
            body["token_ids"] = piece.token_ids
            if is_first and choice.is_first_of_prompt and self.has_prompt_per_choice:
                body["prompt_token_ids"] = choice.prompt
        return body

    def says_something(self, delta: Json, piece: Piece) -> bool:
        """Whether the choice of a chunk is worth sending: half a character is not, a repeated prompt is."""
        shown = piece.text or piece.reasoning or piece.calls or piece.logprobs
        return bool(shown or piece.finish_reason or delta.get("text"))

    def _prompt_ids(self) -> Json:
        """Returns the token ids of the one prompt, where the answer as a whole has them."""
        is_wanted = self._returns_token_ids and not self.has_prompt_per_choice
        return {"prompt_token_ids": self._job.prompts[0]} if is_wanted else {}

    def _with_ids(self, body: Json, choice: Choice) -> Json:
        body |= {"finish_reason": choice.finish_name, "stop_reason": choice.stop_reason}
        if self._returns_token_ids:
            body["token_ids"] = choice.token_ids
            if choice.is_first_of_prompt and self.has_prompt_per_choice:
                body["prompt_token_ids"] = choice.prompt
        return body

    @abstractmethod
    def _choice(self, choice: Choice) -> Json: ...

    @abstractmethod
    def _delta(self, choice: Choice, piece: Piece, is_first: bool) -> Json: ...
