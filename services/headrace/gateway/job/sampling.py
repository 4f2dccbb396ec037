"""Sampling of each token, as a client asks for it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.gateway.chat.output_grammar import OutputGrammar
from headrace.gateway.chat.reasoning_budget import ReasoningBudget


@dataclass(frozen=True, slots=True)
class Sampling:
    """See `SamplingParams` of the protocol, which defines each value and its meaning when unset."""

    max_token_count: int = 0
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_biases: Mapping[int, float] = field(default_factory=dict)
    seed: int | None = None
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    min_token_count: int = 0
    logprob_count: int | None = None
    prompt_logprob_count: int | None = None
    grammar: OutputGrammar | None = None
    reasoning_limit: ReasoningBudget | None = None
