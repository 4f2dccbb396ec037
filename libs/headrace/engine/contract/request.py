"""Inputs and outputs of the engine: plain data, no tensors, no protobuf."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.engine.contract.grammar import Grammar
from headrace.engine.contract.model_cost import NO_WORK, StepWork
from headrace.engine.contract.reasoning_limit import ReasoningLimit

MIN_TEMPERATURE = 1e-5
"""Below it, dividing logits could overflow, and only the most likely token is left anyway."""


class Urgency(enum.IntEnum):
    """The classes of requests, most urgent first."""

    REALTIME = 0
    INTERACTIVE = 1
    DEFAULT = 2
    BATCH = 3


class FinishReason(enum.Enum):
    """Reasons for which a request ends."""

    STOP = "stop"
    """An end-of-sequence token or one of the request's stop ids was generated. It is the last id delivered."""
    LENGTH = "length"
    """`max_tokens` were generated, or the context is full."""


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """Settings by which each token is chosen. The defaults sample from the model's own distribution."""

    max_tokens: int = 16
    """Maximum number of tokens to generate. At least 1, or 0 when only the prompt is to be scored."""
    temperature: float = 1.0
    """Divisor of logits; 0 picks the most likely token. In [0, 2]."""
    top_k: int | None = None
    """Keep only the k most likely tokens. At least 1."""
    top_p: float = 1.0
    """Keep the smallest set of tokens whose probability reaches this. In (0, 1]."""
    min_p: float = 0.0
    """Drop tokens less likely than this fraction of the most likely one. In [0, 1]."""
    repetition_penalty: float = 1.0
    """Divides positive and multiplies negative logits of tokens seen in prompt or output (Keskar et al., 2019)."""
    presence_penalty: float = 0.0
    """Number subtracted from the logit of every token already generated."""
    frequency_penalty: float = 0.0
    """Number subtracted from a token's logit once per time it was generated."""
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    """Numbers added to the logits of the given token ids."""
    seed: int | None = None
    """Makes sampling repeatable: the draw depends on (seed, position) alone. Unset draws a fresh seed."""
    stop_token_ids: frozenset[int] = frozenset()
    """Token ids that end the request, besides the model's own end-of-sequence ids."""
    ignore_eos: bool = False
    """Continue after the model's end-of-sequence ids. `stop_token_ids` still stop, and so does the end of a grammar."""
    min_tokens: int = 0
    """Tokens before which no end-of-sequence or stop id is chosen, unless a grammar allows nothing else."""
    logprob_count: int | None = None
    """Report the chosen token's log-probability and this many alternatives (0 to 20). Unset reports none."""
    prompt_logprob_count: int | None = None
    """Report the log-probability of every prompt token but the first and this many alternatives. Unset reports none."""
    grammar: Grammar | None = None
    """Grammar that the output must follow. It may end only where the grammar does. Unset leaves it free."""
    reasoning_limit: ReasoningLimit | None = None
    """Bound of reasoning, which ends it. It must fit the grammar, if there is one."""

    @property
    def is_greedy(self) -> bool:
        return self.temperature < MIN_TEMPERATURE

    @property
    def is_constrained(self) -> bool:
        """Whether some tokens may not come next."""
        return self.grammar is not None or self.reasoning_limit is not None

    @property
    def takes_likeliest(self) -> bool:
        """Whether each token is the most likely one by the model's own logits, and nothing more is asked."""
        penalties = (self.repetition_penalty - 1, self.presence_penalty, self.frequency_penalty)
        changes = any(penalties) or self.logit_bias or self.min_tokens or self.is_constrained
        return self.is_greedy and not changes and self.logprob_count is None

    @property
    def reads_text(self) -> bool:
        """Whether the tokens before it must be known where a token is chosen, or its log-probability is asked for."""
        changes = self.repetition_penalty != 1 or self.presence_penalty or self.frequency_penalty or self.is_constrained
        return bool(changes) or self.logprob_count is not None or self.prompt_logprob_count is not None


@dataclass(frozen=True, slots=True)
class EngineRequest:
    """One sequence to continue."""

    request_id: str
    """Unique among the requests that the engine holds."""
    prompt_token_ids: tuple[int, ...]
    """Token ids of the prompt, at least one."""
    sampling: SamplingParams
    output_token_ids: tuple[int, ...] = ()
    """Tokens that another engine already generated for this request: they count as output for penalties,
    `max_tokens`, `min_tokens` and the sampling position, and are not delivered again."""
    cache_salt: str = ""
    """Prefix-cache entries are shared only among requests with the same salt (one per tenant)."""
    adapter: str = ""
    """Name of the adapter to add to the model. Empty: the model as it is."""
    urgency: Urgency = Urgency.DEFAULT
    """The more urgent runs first. It changes when tokens come, never which."""

    @property
    def token_count(self) -> int:
        """Tokens to be read before the next one is chosen."""
        return len(self.prompt_token_ids) + len(self.output_token_ids)


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """The log-probability of one token and its strongest alternatives, under the distribution before sampling
    adjustments (log-softmax of the raw logits)."""

    token_id: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()
    """Pairs of (token id, log-probability), most likely first."""


# Not frozen: one is made for each token, which would take three times as long.
@dataclass(slots=True)
class Delta:
    """Result of one step for one request. Never changed."""

    request_id: str
    first_index: int
    """Index in the request's output of the first of `token_ids`; counts `EngineRequest.output_token_ids`."""
    token_ids: tuple[int, ...]
    logprobs: tuple[TokenLogprob, ...] = ()
    """Log-probabilities of each of `token_ids` where asked for, else empty."""
    prompt_logprobs: tuple[TokenLogprob | None, ...] | None = None
    """Log-probabilities of the prompt, once, with the first delta, where asked for: one per prompt token; the first is
    None."""
    finish_reason: FinishReason | None = None
    """Reason for which the request ended. Set on its last delta."""
    cached_token_count: int = 0
    """Prompt tokens whose KV was found in the prefix cache. Set with the first delta."""
    embedding: tuple[float, ...] = ()
    """Values fp32 of the prompt's embedding, where the model makes those. Set on the request's one delta."""


@dataclass(frozen=True, slots=True)
class EngineStats:
    """A snapshot of the engine's load."""

    running_count: int
    waiting_count: int
    """Requests that want to run and found no room yet. Those whose grammar is being compiled are not counted."""
    block_count: int
    used_block_count: int
    """Blocks that some live request holds (cached but unreferenced blocks are not counted)."""
    step_count: int
    """Steps done since the start: the progress counter."""
    preemption_count: int
    prompt_token_count: int
    """Prompt tokens computed since the start (without prefix-cache hits)."""
    output_token_count: int
    prefix_hit_token_count: int
    draft_token_count: int = 0
    """Tokens drafted since the start."""
    accepted_token_count: int = 0
    """Draft tokens that the model confirmed: divided by `draft_token_count`, the acceptance rate."""
    waiting_token_count: int = 0
    """Prompt tokens that have not been computed yet."""
    pausable_count: int = 0
    """Running requests of the batch class."""
    work: StepWork = NO_WORK
    """Work done since the start."""
    wait_count: int = 0
    """Times that a step had to wait for its turn, or for a model that sleeps. Requests wait, but are not forgotten."""

    @property
    def progress_count(self) -> int:
        """Progress counter: it grows while there are requests."""
        return self.step_count + self.wait_count


@dataclass(frozen=True, slots=True)
class BlockEvents:
    """KV blocks that entered and left the prefix cache since the last call, as chained 128-bit hashes in order."""

    stored: tuple[bytes, ...] = ()
    removed: tuple[bytes, ...] = ()
