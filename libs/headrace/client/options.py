"""Options of calls, by name: the same over HTTP and gRPC."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict

from headrace.domain.deadline import Deadline
from headrace.domain.message import Message
from headrace.errors import InvalidRequest

Priority = Literal["realtime", "interactive", "default", "batch"]
FORMATS = ("json_schema", "regex", "choices")
"""Options that hold the output to a form; at most one may be given."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A function of the caller that a model may ask for."""

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """JSON schema of the arguments. Empty: there are none."""
    strict: bool = False
    """Whether every keyword of the schema must be followed. Otherwise keywords that cannot be are hints."""


class CallOptions(TypedDict, total=False):
    """Options that every call takes."""

    model: str
    """Default: the client's, else the first that is served."""
    timeout: float
    """Seconds that the call may take, with all its retries. Default: the client's."""
    request_id: str
    """Names the request in logs and traces: 1 to 128 visible ASCII characters. Default: a random one."""
    priority: Priority
    """Class of the request."""


class GenerationOptions(CallOptions, total=False):
    """Options of a completion. Options left out are as the model recommends."""

    max_tokens: int
    """Maximum number of tokens to generate, at least 1. Default: 16 for a completion, as many as fit for a
    conversation."""
    temperature: float
    top_p: float
    top_k: int
    min_p: float
    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float
    logit_bias: Mapping[int, float]
    """Added to the logits of token ids."""
    seed: int
    """Makes the draw repeatable."""
    stop: Sequence[str]
    """Texts that end the output. They are not part of it."""
    stop_token_ids: Sequence[int]
    ignore_eos: bool
    min_tokens: int
    logprobs: bool
    """Whether the log-probability of each token is returned."""
    json_schema: Mapping[str, Any]
    """JSON schema that the output follows."""
    regex: str
    """Regular expression that the whole output matches."""
    choices: Sequence[str]
    """Texts of which the output is one."""


class ChatOptions(GenerationOptions, total=False):
    """Options of an answer in a conversation."""

    tools: Sequence[Tool]
    tool_choice: Literal["auto", "none", "required"]
    parallel_tool_calls: bool
    """Whether one answer may call more than once. Default: yes."""
    max_reasoning_tokens: int
    """Maximum number of reasoning tokens before the answer."""
    template_arguments: Mapping[str, Any]
    """More variables for the chat template."""


@dataclass(frozen=True, slots=True)
class Call:
    """Facts about a call that do not change with its retries."""

    model: str
    request_id: str
    deadline: Deadline
    priority: Priority = "default"


@dataclass(frozen=True, slots=True)
class Question:
    """Conversation to answer, or prompt to continue."""

    options: ChatOptions
    messages: tuple[Message, ...] | None = None
    prompt: str | tuple[int, ...] = ""
    """Text, or token ids. Without effect beside messages."""

    @property
    def format(self) -> tuple[str, Any] | None:
        """Name and value of the option that the output is held to, if there is one."""
        return next(((name, value) for name, value in self.options.items() if name in FORMATS), None)


def check(options: Mapping[str, Any], known: type) -> None:
    """Raises TypeError for an option that does not exist, as Python does for keywords, and InvalidRequest for options
    that no platform could honor."""
    for name in options:
        if name not in known.__annotations__:
            raise TypeError(f"unknown option {name!r}; known: {', '.join(sorted(known.__annotations__))}")
    given = [name for name in FORMATS if name in options]
    if len(given) > 1:
        raise InvalidRequest(f"the output can have one format only, not that of {given[0]} and of {given[1]}")
    if options.get("max_tokens", 1) < 1:
        raise InvalidRequest(f"max_tokens is {options['max_tokens']}; it must be at least 1", param="max_tokens")
    if isinstance(options.get("stop"), str):
        raise InvalidRequest("stop is a text; it must be a list of texts", param="stop")
