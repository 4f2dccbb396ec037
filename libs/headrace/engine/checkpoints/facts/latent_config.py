"""The facts about latent attention (DeepSeek-V2, 2024)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LatentConfig:
    """Attention whose keys and values are products of one latent vector of each token. The cache keeps that vector, and
    the elements of the key that rotate: one KV head [rotating, latent], which all query heads share."""

    kv_rank: int
    """Elements of the latent vector."""
    query_rank: int | None
    """Elements of the latent vector of queries. None: queries are products of the hidden state."""
    still_size: int
    """Elements of a query head that do not rotate, before they are multiplied into the latent space."""
    rotary_size: int
    value_size: int
    """Elements of a head's output."""
    pairs_neighbors: bool
    """Whether the two elements of a rotary pair are neighbors in checkpoints."""
    norm_epsilon: float = 1e-6
    """Epsilon of the norms of latent vectors."""

    @property
    def head_size(self) -> int:
        """Elements of a head in the cache."""
        return self.rotary_size + self.kv_rank

    @property
    def query_size(self) -> int:
        """Elements of a query head in checkpoints."""
        return self.still_size + self.rotary_size
