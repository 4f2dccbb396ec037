"""Results that are no text: models, embeddings, rankings, usage, and records of requests."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Model:
    """A model that the platform serves."""

    name: str
    architecture: str = ""
    """The architecture that the checkpoint names, such as LlamaForCausalLM."""
    precision: str = ""
    """Format in which the weights are held, such as float32 or int4."""
    parameter_count: int = 0
    max_model_length: int = 0
    """Maximum number of tokens of prompt and output together, or of an input of an embedding."""
    embedding_size: int = 0
    """Elements of its embeddings. 0: it makes text instead."""
    scores_pairs: bool = False
    """Whether it scores pairs of texts, for rankings alone."""
    can_chat: bool = True
    """Whether it has a chat template, as far as is known."""
    parent: str = ""
    """The model that it is with an adapter. Empty: a model without one."""


@dataclass(frozen=True, slots=True)
class Embeddings:
    """Vectors of texts."""

    vectors: tuple[tuple[float, ...], ...]
    """One per input, in order."""
    model: str
    request_id: str
    prompt_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Ranked:
    """A document with its score."""

    index: int
    """Place among the documents that were given, from 0."""
    score: float
    """Cosine of the angle to the query, in [-1, 1], or the score of a model that scores pairs of texts, in [0, 1]."""
    text: str


@dataclass(frozen=True, slots=True)
class Ranking:
    """Documents, the closest first."""

    documents: tuple[Ranked, ...]
    model: str
    request_id: str
    prompt_tokens: int = 0


@dataclass(frozen=True, slots=True)
class UsageRow:
    """Sums over the requests of one group."""

    group: str
    """The key, model, tenant or day (in UTC) that the requests share."""
    requests: int = 0
    finished: int = 0
    """Requests that were answered whole."""
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    """Sum of the costs, in the currency in which devices are priced. 0: no device has a price."""
    cost_per_million_tokens: float = 0.0


@dataclass(frozen=True, slots=True)
class RequestTrace:
    """Record of one of the last requests: where its time went. Times are in milliseconds."""

    id: str
    """The request id that the client gave or was given."""
    request_id: str
    """The id inside the platform."""
    started: float
    """Seconds since 1970."""
    model: str
    outcome: str
    """finished, or the code of an error."""
    status: int
    """HTTP status. 0 over gRPC."""
    operation: str
    worker: str
    attempts: int
    total_ms: float
    ttft_ms: float | None
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    stages_ms: dict[str, float]
