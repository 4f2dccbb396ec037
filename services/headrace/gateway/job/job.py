"""A request after validation and encoding: one or more prompts, each continued one or more times."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from headrace.domain.conversation import Conversation
from headrace.domain.ids import sequence_id
from headrace.errors import ContextExceeded, InvalidRequest
from headrace.gateway.chat.answer_style import AnswerStyle
from headrace.gateway.chat.reasoning_budget import ReasoningBudget
from headrace.gateway.chat.tools.tool_use import ToolUse
from headrace.gateway.fleet.model_facts import ModelFacts
from headrace.gateway.job.sampling import Sampling
from headrace.gateway.job.sequence_request import SequenceRequest
from headrace.gateway.job.truncation import Truncation
from headrace.gateway.request.envelope import Envelope
from headrace.gateway.text.detokenizer import Vocabulary
from headrace.rpc.checks.checked_ids import check_token_ids
from headrace.v1.generation_pb2 import PriorityClass

NEVER = -100.0
"""Bias of a token that is not to be generated."""


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a request to generate, the same for every API."""

    sampling: Sampling
    max_token_count: int | None
    """Maximum number of output tokens. Unset means as many as fit."""
    choice_count: int = 1
    stop_texts: tuple[str, ...] = ()
    includes_stop_text: bool = False
    skips_special_tokens: bool = True
    priority_class: "PriorityClass.ValueType" = PriorityClass.PRIORITY_CLASS_UNSPECIFIED
    tool_use: ToolUse | None = None
    """Tools that answers may call."""
    max_reasoning_token_count: int | None = None
    """Maximum number of reasoning tokens before an answer. Unset means as many as the model likes."""
    truncation: Truncation | None = None
    """Truncation of the prompts. None: one that is too long is refused."""
    allowed_token_ids: frozenset[int] | None = None
    """The only tokens that may be generated, which the grammar holds."""
    cache_salt: str = ""
    """Secret that isolates cached KV blocks and responses within the tenant. Empty: they are shared there."""
    ends_at_window: bool = False
    """Whether an answer that may have more tokens than fit ends where the context does. Otherwise it is refused."""
    prompt_field: str = "prompt"
    """Field of the request that holds the prompt; and the one that bounds the tokens of the output."""
    limit_field: str = "max_tokens"

    def following(self, style: AnswerStyle) -> "Options":
        """Returns the options with a grammar that holds answers to a style. Raises Unsupported."""
        grammar = style.grammar(self.sampling.grammar)
        return (
            self
            if grammar is self.sampling.grammar
            else replace(self, sampling=replace(self.sampling, grammar=grammar))
        )

    def allowing(self, eos_token_ids: Sequence[int]) -> "Options":
        """Returns the options without an end of the text that is not among the tokens that may be generated: a grammar
        of tokens may end after each."""
        if self.allowed_token_ids is None:
            return self
        ends = {token_id: NEVER for token_id in eos_token_ids if token_id not in self.allowed_token_ids}
        return replace(self, sampling=replace(self.sampling, logit_biases={**self.sampling.logit_biases, **ends}))

    def bound(self, model: ModelFacts) -> int | None:
        """Returns the tokens beyond which a prompt is refused. None: its end may be left out."""
        return model.max_model_length if self.truncation is None else None

    def read_of(self, prompt: list[int], model: ModelFacts) -> list[int]:
        """Returns the tokens of a prompt that the model reads."""
        if self.truncation is None:
            return prompt
        return self.truncation.of(prompt, model.max_model_length, self.max_token_count)

    def limited(self, reasoning: ReasoningBudget) -> "Options":
        """Returns the options with a bound of reasoning."""
        return replace(self, sampling=replace(self.sampling, reasoning_limit=reasoning))


@dataclass(frozen=True, slots=True)
class Job:
    """A request to generate that is ready to run."""

    envelope: Envelope
    model: ModelFacts
    vocabulary: Vocabulary
    prompts: list[list[int]]
    options: Options
    style: AnswerStyle | None = None
    """Style of the answers. None: they are plain text."""
    conversations: tuple[Conversation, ...] = ()
    """Prompts as a guard reads them, where they are text."""
    continues_prompt: bool = False
    """Whether outputs continue the text of their prompt. Otherwise each is a separate text."""

    def check(self) -> None:
        """Raises InvalidRequest if the job could never run on this model."""
        for prompt in self.prompts:
            check_prompt(prompt, self.model, self.options.prompt_field)
            if self.exceeds_window(prompt) and not self.options.ends_at_window:
                limit, field = self.model.max_model_length, self.options.limit_field
                raise ContextExceeded(
                    f"this model's maximum context length is {limit} tokens; the prompt has {len(prompt)} and {field} "
                    f"is {self.options.max_token_count}: shorten one of them",
                    param=field,
                )
        size, sampling = self.model.vocabulary_size, self.options.sampling
        check_token_ids(sampling.stop_token_ids, size, "stop_token_ids")
        check_token_ids(list(sampling.logit_biases), size, "logit_bias")
        check_token_ids(list(self.options.allowed_token_ids or ()), size, "allowed_token_ids")
        if sampling.reasoning_limit is not None:
            check_token_ids(sampling.reasoning_limit.end_token_ids, size, "reasoning_limit")

    def exceeds_window(self, prompt: list[int]) -> bool:
        """Whether more tokens may be asked for after a prompt than the model can read."""
        wanted, model = self.options.max_token_count, self.model
        return wanted is not None and len(prompt) + wanted > model.max_model_length and not model.evicts_context

    def sequences(self) -> list[SequenceRequest]:
        """Sequences to generate, one per choice; choice i of prompt p has index p * choice_count + i."""
        return list(self._sequences())

    def _sequences(self) -> Iterator[SequenceRequest]:
        options = self.options
        for prompt_index, prompt in enumerate(self.prompts):
            for choice in range(options.choice_count):
                yield SequenceRequest(
                    request_id=sequence_id(self.envelope.request_id, prompt_index * options.choice_count + choice),
                    envelope=self.envelope,
                    model=self.model,
                    prompt_token_ids=prompt,
                    sampling=self._sampling(prompt, choice),
                    priority_class=self.envelope.class_or(options.priority_class),
                    stop_texts=options.stop_texts,
                    includes_stop_text=options.includes_stop_text,
                    skips_special_tokens=options.skips_special_tokens,
                    continues_prompt=self.continues_prompt,
                    use_cache=self.envelope.use_cache,
                    cache_salt=options.cache_salt,
                )

    def _sampling(self, prompt: list[int], choice: int) -> Sampling:
        wanted, sampling = self.options.max_token_count, self.options.sampling
        if wanted is None or self.exceeds_window(prompt):
            wanted = self.model.max_model_length - len(prompt)
        return replace(
            sampling,
            seed=_as_int64((sampling.seed or 0) + choice),
            max_token_count=wanted,
            min_token_count=min(sampling.min_token_count, wanted),
        )


def check_prompt(prompt: list[int], model: ModelFacts, field: str = "prompt") -> None:
    """Raises InvalidRequest, naming the field, for a prompt that is empty, too long for a model, or of unknown
    tokens."""
    if not prompt:
        raise InvalidRequest("the prompt is empty: it must have at least one token", param=field)
    if len(prompt) >= model.max_model_length:
        count = f"{len(prompt)} + 1" if len(prompt) == model.max_model_length else str(len(prompt))
        raise ContextExceeded.of_prompt(count, model.max_model_length, param=field)
    check_token_ids(prompt, model.vocabulary_size, field)


def _as_int64(value: int) -> int:
    return (value + 2**63) % 2**64 - 2**63
