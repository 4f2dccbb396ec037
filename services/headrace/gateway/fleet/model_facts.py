"""Facts about a model that is served."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class AdapterFacts:
    """An adapter that can be added to a model."""

    name: str
    fingerprint: str = ""


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """A model, alone or with an adapter: see `ModelInfo` of the protocol."""

    model: str
    architecture: str = ""
    max_model_length: int = 0
    """Longest prompt plus output, or longest input of an embedding, in tokens."""
    vocabulary_size: int = 0
    block_size: int = 0
    """Tokens in one KV block. Zero: the model keeps no blocks."""
    parameter_count: int = 0
    precision: str = ""
    embedding_size: int = 0
    """Elements of the model's embeddings. Zero: it generates text instead."""
    scores_pairs: bool = False
    """Whether inputs are pairs of texts, and embeddings of one element are scores: any number."""
    fingerprint: str = ""
    adapters: tuple[AdapterFacts, ...] = ()
    parent: str = ""
    """Base model, if this is a model with an adapter. Empty: it is a base model itself."""
    evicts_context: bool = False
    default_temperature: float = 1.0
    """Sampling where a request says nothing."""
    default_top_p: float = 1.0

    def adapted(self, adapter: AdapterFacts) -> "ModelFacts":
        """Returns the model with one of its adapters."""
        return replace(self, model=adapter.name, parent=self.model, fingerprint=adapter.fingerprint, adapters=())
