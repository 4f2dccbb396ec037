"""The response bodies of OpenAI's API: whole ones, and the chunks of streams."""

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.gateway.delivery.text_stream import Piece
from headrace.gateway.request.job import Job
from headrace.gateway.text.detokenizer import Vocabulary
from headrace.v1.generation_pb2 import FinishReason, TokenLogprob

Json = dict[str, Any]
FINISH_NAMES: dict[int, str | None] = {
    FinishReason.FINISH_REASON_UNSPECIFIED: None,
    FinishReason.FINISH_REASON_STOP: "stop",
    FinishReason.FINISH_REASON_LENGTH: "length",
    FinishReason.FINISH_REASON_CANCELLED: "stop",
}


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
    cached_token_count: int = 0
    finish_name: str | None = None
    stop_reason: str | int | None = None

    def add(self, piece: Piece) -> None:
        self.text.append(piece.text)
        self.token_ids += piece.token_ids
        self.logprobs += piece.logprobs
        self.prompt_logprobs += piece.prompt_logprobs
        self.cached_token_count = max(self.cached_token_count, piece.cached_token_count)
        self.finish_name = FINISH_NAMES[piece.finish_reason]
        self.stop_reason = piece.stop_reason


def choices_of(job: Job) -> list[Choice]:
    count = job.options.choice_count
    return [Choice(index, job.prompts[index // count], index % count == 0) for index in range(len(job.prompts) * count)]


def usage_of(choices: Sequence[Choice]) -> Json:
    """Counts the tokens of all choices. Each prompt counts once, however often it was continued."""
    prompt_count = sum(len(choice.prompt) for choice in choices if choice.is_first_of_prompt)
    output_count = sum(len(choice.token_ids) for choice in choices)
    cached_count = sum(choice.cached_token_count for choice in choices if choice.is_first_of_prompt)
    return {
        "prompt_tokens": prompt_count,
        "completion_tokens": output_count,
        "total_tokens": prompt_count + output_count,
        "prompt_tokens_details": {"cached_tokens": cached_count},
    }


class ResponseFormat(ABC):
    """Format in which one of the two generation APIs writes its results."""

    object_name: str
    chunk_object_name: str

    def __init__(self, job: Job, response_id: str, returns_token_ids: bool) -> None:
        self._job = job
        self._returns_token_ids = returns_token_ids
        self._head: Json = {"id": response_id, "created": int(time.time()), "model": job.model.model}

    def whole(self, choices: Sequence[Choice]) -> Json:
        """The body of a response that is not streamed."""
        return {
            **self._head,
            "object": self.object_name,
            "choices": [self._with_ids(self._choice(choice), choice) for choice in choices],
            "usage": usage_of(choices),
        }

    def opening(self, choice: Choice) -> Json | None:
        """The choice of a chunk before the first token; None when there is none."""
        return None

    def chunk(self, choice: Json, with_usage: bool) -> Json:
        body = {**self._head, "object": self.chunk_object_name, "choices": [choice]}
        return {**body, "usage": None} if with_usage else body

    def usage_chunk(self, choices: Sequence[Choice]) -> Json:
        return {**self._head, "object": self.chunk_object_name, "choices": [], "usage": usage_of(choices)}

    def delta(self, choice: Choice, piece: Piece) -> Json:
        """The choice of a chunk: what `piece` added. Called before the choice takes the piece in."""
        is_first = not choice.text
        body = self._delta(choice, piece, is_first)
        body["finish_reason"] = FINISH_NAMES[piece.finish_reason]
        if piece.finish_reason:
            body["stop_reason"] = piece.stop_reason
        if self._returns_token_ids:
            body["token_ids"] = piece.token_ids
            if is_first and choice.is_first_of_prompt:
                body["prompt_token_ids"] = choice.prompt
        return body

    def says_something(self, delta: Json, piece: Piece) -> bool:
        """Whether the choice of a chunk is worth sending: half a character is not, a repeated prompt is."""
        return bool(piece.text or piece.finish_reason or piece.logprobs or delta.get("text"))

    def _with_ids(self, body: Json, choice: Choice) -> Json:
        body |= {"finish_reason": choice.finish_name, "stop_reason": choice.stop_reason}
        if self._returns_token_ids:
            body["token_ids"] = choice.token_ids
            if choice.is_first_of_prompt:
                body["prompt_token_ids"] = choice.prompt
        return body

    @abstractmethod
    def _choice(self, choice: Choice) -> Json: ...

    @abstractmethod
    def _delta(self, choice: Choice, piece: Piece, is_first: bool) -> Json: ...


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
            _scored(vocabulary, entry.chosen.token_id, entry.chosen.logprob)
            | {"top_logprobs": [_scored(vocabulary, top.token_id, top.logprob) for top in entry.alternatives]}
            for entry in entries
        ]
        return {"content": content, "refusal": None}


class CompletionFormat(ResponseFormat):
    """Format of /v1/completions."""

    object_name = "text_completion"
    chunk_object_name = "text_completion"

    def __init__(self, job: Job, response_id: str, returns_token_ids: bool, echoed: Sequence[str] | None) -> None:
        super().__init__(job, response_id, returns_token_ids)
        self._echoed = echoed
        """The text of each prompt, when it is to be repeated."""

    def _echo(self, choice: Choice) -> str:
        return "" if self._echoed is None else self._echoed[choice.index // self._job.options.choice_count]

    def _choice(self, choice: Choice) -> Json:
        prompt_ids = choice.prompt if choice.prompt_logprobs else []
        entries = [*choice.prompt_logprobs, *choice.logprobs]
        token_ids = [*prompt_ids, *choice.token_ids]
        offset = 0 if choice.prompt_logprobs else len(self._echo(choice))
        return {
            "index": choice.index,
            "text": self._echo(choice) + "".join(choice.text),
            "logprobs": self._logprobs(entries, token_ids, offset),
        }

    def _delta(self, choice: Choice, piece: Piece, is_first: bool) -> Json:
        echo = self._echo(choice) if is_first else ""
        prompt_ids = choice.prompt if piece.prompt_logprobs else []
        entries = [*piece.prompt_logprobs, *piece.logprobs]
        offset = 0 if is_first else len(self._echo(choice)) + sum(map(len, choice.text))
        return {
            "index": choice.index,
            "text": echo + piece.text,
            "logprobs": self._logprobs(entries, [*prompt_ids, *piece.token_ids], offset),
        }

    def _logprobs(self, entries: Sequence[TokenLogprob], token_ids: Sequence[int], offset: int) -> Json | None:
        if not entries:
            return None
        texts = [_text(self._job.vocabulary, token_id) for token_id in token_ids]
        offsets = [offset]
        for text in texts[:-1]:
            offsets.append(offsets[-1] + len(text))
        return {
            "tokens": texts,
            "token_logprobs": [_logprob(entry) for entry in entries],
            "top_logprobs": [self._top(entry) for entry in entries],
            "text_offset": offsets,
        }

    def _top(self, entry: TokenLogprob) -> Json | None:
        if not entry.HasField("chosen"):
            return None
        vocabulary = self._job.vocabulary
        top = {_text(vocabulary, scored.token_id): scored.logprob for scored in entry.alternatives}
        return top | {_text(vocabulary, entry.chosen.token_id): entry.chosen.logprob}


def _logprob(entry: TokenLogprob) -> float | None:
    return entry.chosen.logprob if entry.HasField("chosen") else None


def _text(vocabulary: Vocabulary, token_id: int) -> str:
    return vocabulary.piece(token_id).decode("utf-8", "replace")


def _scored(vocabulary: Vocabulary, token_id: int, logprob: float) -> Json:
    piece = vocabulary.piece(token_id)
    return {"token": piece.decode("utf-8", "replace"), "logprob": logprob, "bytes": list(piece)}
