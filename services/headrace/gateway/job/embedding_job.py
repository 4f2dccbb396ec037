"""A request for embeddings after validation and encoding: one or more inputs, each a separate sequence."""

from dataclasses import dataclass

from headrace.domain.ids import sequence_id
from headrace.errors import ContextExceeded, InvalidRequest
from headrace.gateway.fleet.model_facts import ModelFacts
from headrace.gateway.job.sampling import Sampling
from headrace.gateway.job.sequence_request import SequenceRequest
from headrace.gateway.request.envelope import Envelope
from headrace.rpc.checks.checked_ids import check_token_ids
from headrace.v1.generation_pb2 import PriorityClass

WHOLE_CONTEXT = -1
"""Token limit that means as many as the model can read, as in vLLM."""


@dataclass(frozen=True, slots=True)
class EmbeddingOptions:
    """Options of a request for embeddings, the same for every API."""

    dimension_count: int | None = None
    """Elements of each embedding to keep. Unset keeps all."""
    max_token_count: int | None = None
    """Tokens after which inputs are truncated, or WHOLE_CONTEXT. Unset refuses inputs that are too long."""
    add_special_tokens: bool | None = None
    priority_class: "PriorityClass.ValueType" = PriorityClass.PRIORITY_CLASS_UNSPECIFIED

    def check(self, model: ModelFacts) -> None:
        """Raises InvalidRequest for options that the model cannot satisfy."""
        count, limit = self.dimension_count, self.max_token_count
        if count is not None and not 1 <= count <= model.embedding_size:
            raise InvalidRequest(
                f"dimensions is {count}; the embeddings of model {model.model} have {model.embedding_size}: "
                f"ask for 1 to {model.embedding_size}, or leave it out",
                param="dimensions",
            )
        if limit is not None and limit != WHOLE_CONTEXT and not 1 <= limit <= model.max_model_length:
            raise InvalidRequest(
                f"truncate_prompt_tokens is {limit}; model {model.model} reads {model.max_model_length} tokens: "
                f"give 1 to {model.max_model_length}, or -1 for as many as it reads",
                param="truncate_prompt_tokens",
            )

    def limit(self, model: ModelFacts) -> int | None:
        """Returns the number of tokens after which inputs are truncated."""
        return model.max_model_length if self.max_token_count == WHOLE_CONTEXT else self.max_token_count


@dataclass(frozen=True, slots=True)
class EmbeddingJob:
    """A request for embeddings that is ready to run."""

    envelope: Envelope
    model: ModelFacts
    inputs: list[list[int]]
    options: EmbeddingOptions

    @property
    def token_count(self) -> int:
        return sum(map(len, self.inputs))

    def check(self) -> None:
        """Raises InvalidRequest if the job could never run on this model."""
        for index, token_ids in enumerate(self.inputs):
            where = f"input {index}" if len(self.inputs) > 1 else "the input"
            _check_input(token_ids, where, self.model)

    def sequences(self) -> list[SequenceRequest]:
        """Sequences to embed, one per input, in order."""
        envelope = self.envelope
        return [
            SequenceRequest(
                request_id=sequence_id(envelope.request_id, index),
                envelope=envelope,
                model=self.model,
                prompt_token_ids=token_ids,
                sampling=Sampling(),
                priority_class=envelope.class_or(self.options.priority_class),
                use_cache=envelope.use_cache and bool(self.model.fingerprint),
                embeds=True,
            )
            for index, token_ids in enumerate(self.inputs)
        ]


def _check_input(token_ids: list[int], where: str, model: ModelFacts) -> None:
    if not token_ids:
        raise InvalidRequest(f"{where} is empty: it must have at least one token", param="input")
    if len(token_ids) > model.max_model_length:
        advice = f"shorten or split {where}, or set truncate_prompt_tokens to -1 to have its end cut"
        raise ContextExceeded.of_prompt(str(len(token_ids)), model.max_model_length, advice, param="input")
    check_token_ids(token_ids, model.vocabulary_size, "input")
