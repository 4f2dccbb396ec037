"""The engine's Protocol: everything that a worker may ask of a model."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from headrace.domain.step_times import StepTimes
from headrace.engine.contract.held_memory import HeldMemory
from headrace.engine.contract.model_cost import ModelCost
from headrace.engine.contract.request import BlockEvents, Delta, EngineRequest, EngineStats, SamplingParams


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """Facts about a loaded model that do not change."""

    architecture: str
    vocabulary_size: int
    max_model_length: int
    """Longest prompt plus output, in tokens."""
    max_running_count: int
    """Maximum number of sequences in one step."""
    max_step_token_count: int
    """Token budget of one step (prefill chunks plus decodes)."""
    max_step_seconds: float = field(default=0.0, kw_only=True)
    """Seconds that a step with prefill chunks should take at most for the sequences that decode. 0: any time."""
    block_size: int
    """Tokens per KV block."""
    block_count: int
    eos_token_ids: frozenset[int]
    device: str
    precision: str
    parameter_count: int
    embedding_size: int | None = None
    """Elements of an embedding, where the model makes embeddings instead of text."""
    scores_pairs: bool = False
    """Whether inputs are pairs of texts, whose embedding of one element is a score: any number, the larger the better
    the two belong together."""
    fingerprint: str = ""
    """Digest of the model's outputs for a fixed input: it changes with whatever changes a result. Empty: not known."""
    window: int | None = None
    """Tokens that a query sees at most, itself included, where every layer has a window. None: some layer sees all."""
    snapshot_count: int | None = None
    """Snapshots of states that the prefix cache can have. None: the model keeps keys and values, and no states."""
    long_context: Literal["stop", "evict"] = "stop"
    """Behavior when a request reaches `max_model_length`: it ends, or continues with part of its text."""
    adapters: Mapping[str, str] = field(default_factory=dict)
    """Names of the adapters that a request may choose, each with a digest of its files."""
    default_sampling: SamplingParams = field(default_factory=SamplingParams)
    """Sampling where a request says nothing."""
    memory: HeldMemory = field(default_factory=HeldMemory)
    """Memory of the model, and of the draft model if there is one."""
    cost: ModelCost = field(default_factory=ModelCost)
    """Memory traffic and arithmetic of the model, without a draft model. All zero: not known."""


class Engine(Protocol):
    """Continuous batching. Not thread-safe: one thread owns it.

    `add` only queues; `step` does the work and returns what it produced. A request's last delta carries its
    finish reason, after which the engine has forgotten it. `cancel` of an unknown id does nothing.
    """

    @property
    def spec(self) -> EngineSpec: ...

    def add(self, request: EngineRequest) -> None:
        """Queues a request. Raises InvalidRequest (a ValueError) if it can never run: empty prompt, a token id outside
        the vocabulary, an adapter that is not there, or longer than the context or the KV pool."""

    def cancel(self, request_id: str) -> None:
        """Drops a request and frees its blocks before the next step. No delta follows."""

    def has_work(self) -> bool: ...

    def step(self, times: StepTimes | None = None) -> list[Delta]:
        """Runs one step: plan, forward, sample, record. Returns at once when there is no work. A model that makes
        embeddings ends each request with one delta, which has no tokens.

        `times`: predicted times of steps, by which `max_step_seconds` is kept. None: they are not known.

        Raises InternalError with `details["request_id"]` when one request went wrong, or InvalidRequest when its
        grammar cannot be used. The engine has forgotten that request; what the step produced for the others comes with
        the next call.
        """

    def stats(self) -> EngineStats: ...

    def drain_block_events(self) -> BlockEvents: ...

    def close(self) -> None: ...
