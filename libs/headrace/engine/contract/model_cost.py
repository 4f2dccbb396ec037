"""Memory traffic and arithmetic of a model, as its shape determines them: what MBU and MFU are made of.

Roofline accounting as in Chowdhery et al., PaLM (2022), appendix B: products with weights and attention, nothing else.
Weights are counted once per step, keys and values once per chunk that reads them.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StepWork:
    """Work of all steps so far, in units that no model determines."""

    step_count: int = 0
    token_count: int = 0
    """Tokens that ran through the model: prompts, decodes and draft tokens."""
    read_token_count: int = 0
    """Tokens whose keys and values were read: for each chunk, its context."""
    pair_count: int = 0
    """Pairs of a query and a key that it sees."""


NO_WORK = StepWork()


@dataclass(frozen=True, slots=True)
class ModelCost:
    """Bytes and operations of each unit of work. A multiplication and an addition are two operations."""

    step_bytes: int = 0
    """Bytes of weights that a step reads, however many tokens it has."""
    token_bytes: int = 0
    """Bytes of the keys and values of one token, in all layers."""
    token_operations: int = 0
    """Operations of the products of one token with the weights."""
    state_bytes: int = 0
    """Bytes of the states of layers that keep some: each token reads and writes them."""
    pair_operations: int = 0
    """Operations of one query and one key, in all heads and layers."""

    def moved_bytes(self, work: StepWork) -> int:
        """Returns the bytes that some work reads from memory or writes to it."""
        kv_bytes = (work.read_token_count + work.token_count) * self.token_bytes
        return work.step_count * self.step_bytes + kv_bytes + 2 * work.token_count * self.state_bytes

    def operations(self, work: StepWork) -> int:
        """Returns the arithmetic operations of some work."""
        return work.token_count * self.token_operations + work.pair_count * self.pair_operations
