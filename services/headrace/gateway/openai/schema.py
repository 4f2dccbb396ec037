"""Request bodies of OpenAI's API, with the extensions that vLLM's users know.

Fields are of three kinds: those that work; those of OpenAI's API that do not work yet, which are refused by name; and
unknown ones, which are listed in a response header, or refused when the gateway is strict.
"""

from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeVar, get_args

import msgspec
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from headrace.errors import InvalidRequest, Unsupported
from headrace.gateway.openai.bulk_fields import MISTAKE, LogitBiasField, PromptField, StopField, TokenIdsField, mistake
from headrace.gateway.openai.output_format import Choices, ResponseFormatField, Schema, StructuredOutputs

MAX_LOGPROBS = 20
MAX_INT32 = 2**31 - 1
"""Largest number that most fields of the platform's messages can hold."""
MAX_STOP_TOKEN_IDS = 64
TokenId = Annotated[int, Field(ge=0, lt=2**31)]
Neutral = Callable[[Any], bool]


class StreamOptions(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    include_usage: bool = False


class ModelBody(BaseModel):
    """Fields that all requests to a model share."""

    model_config = ConfigDict(strict=True, extra="allow", allow_inf_nan=False, protected_namespaces=())

    model: str
    user: str | None = None


class Body(ModelBody):
    """Fields that completions and chat share."""

    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, gt=0, le=1)
    n: int | None = Field(default=None, ge=1)
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    stop: StopField = None
    presence_penalty: float | None = Field(default=None, ge=-2, le=2)
    frequency_penalty: float | None = Field(default=None, ge=-2, le=2)
    logit_bias: LogitBiasField = None
    seed: int | None = Field(default=None, ge=-(2**63), lt=2**63)
    metadata: dict[str, Any] | None = None
    service_tier: Literal["auto", "default", "flex", "priority"] | None = None
    top_k: int | None = Field(default=None, ge=-1, le=MAX_INT32)
    min_p: float | None = Field(default=None, ge=0, le=1)
    repetition_penalty: float | None = Field(default=None, gt=0, le=10)
    min_tokens: int | None = Field(default=None, ge=0, le=MAX_INT32)
    ignore_eos: bool | None = None
    stop_token_ids: Annotated[list[TokenId], Field(max_length=MAX_STOP_TOKEN_IDS, fail_fast=True)] | None = None
    skip_special_tokens: bool | None = None
    include_stop_str_in_output: bool | None = None
    return_token_ids: bool | None = None
    response_format: ResponseFormatField | None = None
    structured_outputs: StructuredOutputs | None = None
    guided_json: Schema | None = None
    guided_regex: str | None = None
    guided_choice: Choices | None = None
    guided_grammar: str | None = None
    timings: bool | None = None

    @property
    def stop_texts(self) -> tuple[str, ...]:
        if self.stop is None:
            return ()
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)

    @property
    def includes_usage(self) -> bool:
        return self.stream_options is not None and self.stream_options.include_usage


class CompletionBody(Body):
    """Body of POST /v1/completions."""

    prompt: PromptField
    max_tokens: int | None = Field(default=None, ge=0, le=MAX_INT32)
    logprobs: int | None = Field(default=None, ge=0, le=MAX_LOGPROBS)
    echo: bool | None = None
    add_special_tokens: bool | None = None


class EmbeddingBody(ModelBody):
    """Body of POST /v1/embeddings."""

    input: PromptField
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: int | None = Field(default=None, ge=1)
    truncate_prompt_tokens: int | None = Field(default=None, ge=-1)
    add_special_tokens: bool | None = None
    timings: bool | None = None


Role = Literal["system", "developer", "user", "assistant", "tool", "function"]
"""Role of whoever speaks in a conversation."""
ROLES: tuple[str, ...] = get_args(Role)


class TextPart(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")
    type: Literal["text"]
    text: str


class Message(BaseModel):
    """One message of a conversation."""

    model_config = ConfigDict(strict=True, extra="allow")
    role: Role
    content: str | Annotated[list[TextPart], Field(fail_fast=True)] | None = None
    name: str | None = None

    @model_validator(mode="after")
    def _has_content(self) -> "Message":
        if self.role != "assistant" and self.content in (None, []):
            raise mistake(f"a message of the role {self.role} must have content")
        return self

    @property
    def text(self) -> str:
        if self.content is None:
            return ""
        return self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)


class ChatBody(Body):
    """Body of POST /v1/chat/completions."""

    messages: list[Message] = Field(min_length=1, fail_fast=True)
    max_tokens: int | None = Field(default=None, ge=1, le=MAX_INT32)
    max_completion_tokens: int | None = Field(default=None, ge=1, le=MAX_INT32)
    logprobs: bool | None = None
    top_logprobs: int | None = Field(default=None, ge=0, le=MAX_LOGPROBS)
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None


class TokenizeBody(ModelBody):
    """Body of POST /tokenize."""

    prompt: str | None = None
    messages: Annotated[list[Message], Field(fail_fast=True)] | None = None
    add_special_tokens: bool | None = None
    add_generation_prompt: bool | None = None


class DetokenizeBody(ModelBody):
    """Body of POST /detokenize."""

    tokens: TokenIdsField


def _never(_value: Any) -> bool:
    return False


def _is(*neutral: Any) -> Neutral:
    return lambda value: value in neutral


UNSUPPORTED: dict[str, Neutral] = {
    "audio": _never,
    "best_of": _is(1),
    "function_call": _is("none"),
    "functions": _is([]),
    "modalities": _is(["text"]),
    "moderation": _never,
    "parallel_tool_calls": _never,
    "prediction": _never,
    "prompt_cache_options": _never,
    "prompt_cache_retention": _never,
    "reasoning_effort": _is("none"),
    "store": _is(False),
    "suffix": _is(""),
    "tool_choice": _is("none"),
    "tools": _is([]),
    "verbosity": _is("medium"),
    "web_search_options": _never,
}
"""Fields of OpenAI's API that do not work yet, and for each the values that ask for nothing."""

M = TypeVar("M", bound=BaseModel)


def parse(schema: type[M], body: bytes) -> M:
    """Reads a body. Raises InvalidRequest naming the field, or Unsupported."""
    try:
        content = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequest(f"the body is not valid JSON: {error}") from None
    if not isinstance(content, dict):
        raise InvalidRequest("the body must be a JSON object")
    if b"\\u" in body:
        _check_encodable(content)
    try:
        parsed = schema.model_validate(content)
    except ValidationError as error:
        raise _explain(error) from None
    for name, value in (parsed.model_extra or {}).items():
        neutral = UNSUPPORTED.get(name)
        if neutral is not None and value is not None and not neutral(value):
            raise Unsupported(f"{name} is not supported yet", param=name)
    return parsed


def ignored_fields(parsed: BaseModel, strict: bool) -> list[str]:
    """Returns the unknown fields. Raises InvalidRequest when strict."""
    unknown = sorted(name for name in parsed.model_extra or {} if name not in UNSUPPORTED)
    if unknown and strict:
        raise InvalidRequest(f"unknown field {unknown[0]}", param=unknown[0])
    return unknown


def _explain(error: ValidationError) -> InvalidRequest:
    """Explains the first problem in words."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    location = [str(part) for part in first["loc"] if isinstance(part, int) or str(part).isidentifier()]
    name = location[0] if location else None
    where = ".".join(location)
    if first["type"] == "missing":
        return InvalidRequest(f"{where} is required", param=name)
    if first["type"] == MISTAKE and len(location) == 1:
        return InvalidRequest(f"{name} {first['msg']}", param=name)
    return InvalidRequest(f"{where or 'the body'}: {first['msg'].lower()}", param=name)


def _check_encodable(content: Any) -> None:
    """Refuses text that is not Unicode: JSON can spell half of a surrogate pair, UTF-8 cannot."""
    try:
        msgspec.json.encode(content)
    except UnicodeEncodeError:
        raise InvalidRequest("a text holds an unpaired surrogate, which is not valid Unicode") from None
