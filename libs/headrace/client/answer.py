"""Answers of a model, whole and in chunks."""

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.domain.tool_call import ToolCall


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Tokens that a request used."""

    prompt_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    """Prompt tokens found in the prefix cache."""
    reasoning_tokens: int = 0
    """Output tokens that are reasoning."""


@dataclass(frozen=True, slots=True)
class CallChunk:
    """Text that one call of a tool grew by."""

    index: int
    """Number of the call in its answer, from 0."""
    id: str = ""
    """Names the call. Set in its first chunk only."""
    name: str = ""
    """The tool. Set in the first chunk only."""
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Growth of an answer. The last chunk of a stream has a finish reason and the usage, and no text."""

    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[CallChunk, ...] = ()
    token_ids: tuple[int, ...] = ()
    """Tokens since the chunk before. All are -1 where the platform filters outputs."""
    logprobs: tuple[float, ...] = ()
    """Log-probabilities of the tokens, if they were asked for."""
    finish_reason: str = ""
    """stop, length, tool_calls or content_filter. Empty: the answer continues."""
    usage: TokenUsage | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """Whole answer."""

    text: str
    model: str
    request_id: str
    """Names the request in logs, traces and `headrace trace`."""
    finish_reason: str = ""
    """stop, length, tool_calls or content_filter. Empty: the stream was left before its end."""
    usage: TokenUsage = TokenUsage()
    reasoning: str = ""
    """Thoughts of the model before it answered. Not part of the text."""
    tool_calls: tuple[ToolCall, ...] = ()
    token_ids: tuple[int, ...] = ()
    """Tokens of the output. All are -1 where the platform filters outputs."""
    logprobs: tuple[float, ...] = ()
    """Log-probabilities of the tokens, if they were asked for."""


def joined(chunks: Sequence[Chunk], model: str, request_id: str) -> Answer:
    """Returns the answer that chunks add up to."""
    calls: dict[int, ToolCall] = {}
    for part in (part for chunk in chunks for part in chunk.tool_calls):
        known = calls.get(part.index, ToolCall("", "", ""))
        calls[part.index] = ToolCall(known.id or part.id, known.name or part.name, known.arguments + part.arguments)
    last = chunks[-1] if chunks else Chunk()
    return Answer(
        text="".join(chunk.text for chunk in chunks),
        model=model,
        request_id=request_id,
        finish_reason=last.finish_reason,
        usage=last.usage or TokenUsage(),
        reasoning="".join(chunk.reasoning for chunk in chunks),
        tool_calls=tuple(calls[index] for index in sorted(calls)),
        token_ids=tuple(token_id for chunk in chunks for token_id in chunk.token_ids),
        logprobs=tuple(logprob for chunk in chunks for logprob in chunk.logprobs),
    )
