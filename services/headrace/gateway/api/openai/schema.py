"""Request bodies of OpenAI's API, with the extensions that vLLM's users know."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from headrace.errors import InvalidRequest
from headrace.gateway.api.entry.model_body import ModelBody
from headrace.gateway.api.entry.neutral import Neutral, is_value, never
from headrace.gateway.api.openai.fields.bulk_fields import (
    LogitBiasField,
    ModeratedField,
    PromptField,
    StopField,
    TokenIdsField,
)
from headrace.gateway.api.openai.fields.constraints import REFUSED
from headrace.gateway.api.openai.fields.message_fields import Message
from headrace.gateway.api.openai.fields.output_format import Choices, ResponseFormatField, Schema, StructuredOutputs
from headrace.gateway.api.openai.fields.tool_fields import ToolChoiceField, ToolsField

MAX_LOGPROBS = 20
MAX_TEMPLATE_LENGTH = 65536
MAX_INT32 = 2**31 - 1
"""Largest number that most fields of the platform's messages can hold."""
MAX_STOP_TOKEN_IDS = 64
TokenId = Annotated[int, Field(ge=0, lt=2**31)]
SaltField = Annotated[str, Field(min_length=1, max_length=1024)]


class StreamOptions(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    include_usage: bool = False
    include_obfuscation: bool = False
    """Whether chunks are padded, so that their sizes on the wire say less about the text."""
    continuous_usage_stats: bool = False
    """Whether every chunk has the usage so far, as in vLLM."""


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
    service_tier: Literal["auto", "default", "flex", "scale", "priority", "fast"] | None = None
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
    grammar: str | None = None
    """GBNF, as llama.cpp takes it."""
    ebnf: str | None = None
    """The same, as SGLang calls it."""
    regex: str | None = None
    json_schema: Schema | None = None
    allowed_token_ids: TokenIdsField | None = None
    """The only tokens that may be generated."""
    return_tokens_as_token_ids: bool | None = None
    """Whether log-probabilities name tokens as `token_id:7`."""
    truncate_prompt_tokens: int | None = Field(default=None, ge=-1, le=MAX_INT32)
    """Maximum number of prompt tokens that are read; -1: as many as leave room for the answer."""
    truncation_side: Literal["left", "right"] | None = None
    timings: bool | None = None
    cache_salt: SaltField | None = None

    unsupported: ClassVar[dict[str, Neutral]] = {
        "audio": never,
        "best_of": is_value(1),
        "function_call": is_value("none"),
        "functions": is_value([]),
        "modalities": is_value(["text"]),
        "moderation": never,
        "prediction": never,
        "prompt_cache_options": never,
        "prompt_cache_retention": is_value("in_memory"),
        "store": is_value(False),
        "suffix": is_value(""),
        "verbosity": is_value("medium"),
    } | REFUSED
    dispensable: ClassVar[dict[str, Neutral]] = {"web_search_options": never}

    def left_out(self) -> list[str]:
        """Names a search of the web that asks for nothing special too."""
        wants_search = (self.model_extra or {}).get("web_search_options") is not None
        return ["web_search_options"] if wants_search else []

    @property
    def stop_texts(self) -> tuple[str, ...]:
        if self.stop is None:
            return ()
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)

    @property
    def streaming(self) -> StreamOptions:
        return self.stream_options or StreamOptions()


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

    unsupported: ClassVar[dict[str, Neutral]] = {"truncation_side": is_value("right")}


class ChatBody(Body):
    """Body of POST /v1/chat/completions."""

    messages: list[Message] = Field(min_length=1, fail_fast=True)
    max_tokens: int | None = Field(default=None, ge=1, le=MAX_INT32)
    max_completion_tokens: int | None = Field(default=None, ge=1, le=MAX_INT32)
    logprobs: bool | None = None
    top_logprobs: int | None = Field(default=None, ge=0, le=MAX_LOGPROBS)
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    tools: ToolsField | None = None
    tool_choice: ToolChoiceField | None = None
    parallel_tool_calls: bool | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    include_reasoning: bool | None = None
    thinking_token_budget: int | None = Field(default=None, ge=0)
    chat_template: str | None = Field(default=None, max_length=MAX_TEMPLATE_LENGTH)
    """Jinja template that replaces the model's, for keys with the scope admin."""
    chat_template_kwargs: dict[str, Any] | None = None
    documents: Annotated[list[dict[str, Any]], Field(fail_fast=True)] | None = None
    """Documents that the chat template shows to the model, if it knows any."""
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    """Whether the answer continues the content of the last message."""
    echo: bool | None = None
    """Whether the answer begins with the content of the last message of the assistant."""

    unsupported: ClassVar[dict[str, Neutral]] = {
        name: neutral for name, neutral in Body.unsupported.items() if name != "chat_template"
    } | {"add_special_tokens": is_value(False)}


class TokenizeBody(ModelBody):
    """Body of POST /tokenize."""

    prompt: str | None = None
    messages: Annotated[list[Message], Field(fail_fast=True)] | None = None
    tools: ToolsField | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    add_special_tokens: bool | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    return_token_strs: bool | None = None

    unsupported: ClassVar[dict[str, Neutral]] = {"chat_template": never}


class DetokenizeBody(ModelBody):
    """Body of POST /detokenize."""

    tokens: TokenIdsField


class ModerationBody(ModelBody):
    """Body of POST /v1/moderations."""

    model: str = ""
    """Accepted without effect: there is one filter."""
    input: ModeratedField


class TextDocument(BaseModel):
    """Document to rank, as Cohere's and Jina's APIs also write it."""

    model_config = ConfigDict(strict=True, extra="ignore")
    text: str


class RankedBody(ModelBody):
    """Fields of requests that compare texts."""

    truncate_prompt_tokens: int | None = Field(default=None, ge=-1)
    instruct: str | None = None
    """Text that says what to look for, as in DashScope and SGLang. Empty: the model's own."""

    unsupported: ClassVar[dict[str, Neutral]] = {"truncation_side": is_value("right"), "instruction": never}


class RerankBody(RankedBody):
    """Body of POST /v1/rerank, as in Jina's and Cohere's APIs, or in text-embeddings-inference."""

    query: str
    documents: Annotated[list[str | TextDocument], Field(min_length=1, fail_fast=True)] | None = None
    top_n: int | None = Field(default=None, ge=1)
    return_documents: bool | None = None
    texts: Annotated[list[str], Field(min_length=1, fail_fast=True)] | None = None
    """The documents, as text-embeddings-inference has them: the answer then is a list too."""
    return_text: bool | None = None
    raw_scores: bool | None = None
    """Whether scores are the numbers that the model computes, instead of probabilities."""

    @property
    def candidates(self) -> list[str]:
        """Texts to rank. Raises InvalidRequest."""
        if (self.documents is None) == (self.texts is None):
            raise InvalidRequest("either documents or texts must be given", param="documents")
        if self.texts is not None:
            return self.texts
        return [each if isinstance(each, str) else each.text for each in self.documents or ()]

    @property
    def shows_texts(self) -> bool:
        return self.return_documents is not False if self.texts is None else bool(self.return_text)


_Texts = str | Annotated[list[str], Field(min_length=1, fail_fast=True)]


class ScoreBody(RankedBody):
    """Body of POST /v1/score, as in vLLM."""

    text_1: _Texts | None = None
    text_2: _Texts | None = None
    queries: _Texts | None = None
    """The same as text_1."""
    documents: _Texts | None = None
    """The same as text_2."""

    @property
    def pairs(self) -> tuple[list[str], list[str]]:
        """Texts to compare: the first list has one for all of the second, or as many. Raises InvalidRequest."""
        first = _either("text_1", self.text_1, "queries", self.queries)
        second = _either("text_2", self.text_2, "documents", self.documents)
        if len(first) not in (1, len(second)):
            names = ("text_1", "text_2") if self.documents is None else ("queries", "documents")
            raise InvalidRequest(
                f"{names[0]} has {len(first)} texts and {names[1]} {len(second)}: it must be one, or as many",
                param=names[0],
            )
        return first, second


def _either(name: str, texts: _Texts | None, other: str, others: _Texts | None) -> list[str]:
    if (texts is None) == (others is None):
        raise InvalidRequest(f"either {name} or {other} must be given", param=name)
    given = texts if texts is not None else others
    return [given] if isinstance(given, str) else given or []
