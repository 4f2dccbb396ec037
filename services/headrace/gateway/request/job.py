"""A request after validation and encoding: one or more prompts, each continued one or more times."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from headrace.clients.conversation import Conversation
from headrace.errors import InvalidRequest
from headrace.gateway.chat.answer_style import AnswerStyle
from headrace.gateway.chat.reasoning_budget import ReasoningBudget
from headrace.gateway.chat.tools.tool_use import ToolUse
from headrace.gateway.request.envelope import Envelope
from headrace.gateway.request.model_facts import ModelFacts
from headrace.gateway.request.sampling import Sampling
from headrace.gateway.request.sequence_request import SequenceRequest
from headrace.gateway.text.detokenizer import Vocabulary
from headrace.identity.ids import sequence_id
from headrace.rpc.checks.checked_ids import check_token_ids
from headrace.v1.generation_pb2 import PriorityClass


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a request to generate, the same for every API."""

    sampling: Sampling
    max_token_count: int | None
    """Most tokens of the output. Unset means as many as fit."""
    choice_count: int = 1
    stop_texts: tuple[str, ...] = ()
    includes_stop_text: bool = False
    skips_special_tokens: bool = True
    priority_class: "PriorityClass.ValueType" = PriorityClass.PRIORITY_CLASS_UNSPECIFIED
    tool_use: ToolUse | None = None
    """Tools that answers may call."""
    max_reasoning_token_count: int | None = None
    """Most tokens of reasoning before an answer. Unset means as many as the model likes."""

    def following(self, style: AnswerStyle) -> "Options":
        """Returns the options with a grammar that holds answers to a style. Raises Unsupported."""
        grammar = style.grammar(self.sampling.grammar)
        return (
            self
            if grammar is self.sampling.grammar
            else replace(self, sampling=replace(self.sampling, grammar=grammar))
        )

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

    def check(self) -> None:
        """Raises InvalidRequest if the job could never run on this model."""
        limit = self.model.max_model_length
        wanted = self.options.max_token_count
        for prompt in self.prompts:
            check_prompt(prompt, self.model)
            if wanted is not None and len(prompt) + wanted > limit and not self.model.evicts_context:
                raise InvalidRequest(
                    f"this model's context is {limit} tokens; the prompt has {len(prompt)} and max_tokens is {wanted}: "
                    "shorten one of them",
                    param="max_tokens",
                )
        size, sampling = self.model.vocabulary_size, self.options.sampling
        check_token_ids(sampling.stop_token_ids, size, "stop_token_ids")
        check_token_ids(list(sampling.logit_biases), size, "logit_bias")
        if sampling.reasoning_limit is not None:
            check_token_ids(sampling.reasoning_limit.end_token_ids, size, "reasoning_limit")

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
                    use_cache=self.envelope.use_cache,
                )

    def _sampling(self, prompt: list[int], choice: int) -> Sampling:
        wanted, sampling = self.options.max_token_count, self.options.sampling
        return replace(
            sampling,
            seed=_as_int64((sampling.seed or 0) + choice),
            max_token_count=self.model.max_model_length - len(prompt) if wanted is None else wanted,
        )


def check_prompt(prompt: list[int], model: ModelFacts) -> None:
    """Raises InvalidRequest for a prompt that is empty, too long for a model, or of unknown tokens."""
    if not prompt:
        raise InvalidRequest("the prompt is empty: it must have at least one token", param="prompt")
    if len(prompt) >= model.max_model_length:
        raise InvalidRequest(
            f"this model's context is {model.max_model_length} tokens and the prompt has {len(prompt)}: "
            "shorten it so that at least one token can follow",
            param="prompt",
        )
    check_token_ids(prompt, model.vocabulary_size, "prompt")


def _as_int64(value: int) -> int:
    return (value + 2**63) % 2**64 - 2**63
