"""Order of the rows of latent attention's products: rotating elements first, as kernels rotate the first of a head."""

import numpy as np
from numpy.typing import NDArray

from headrace.engine.checkpoints.facts.latent_config import LatentConfig


def query_rows(latent: LatentConfig, head_count: int) -> NDArray[np.int64]:
    """Returns the row in a checkpoint of each row of queries: the rotating elements of all heads, then all others."""
    starts = np.arange(head_count)[:, None] * latent.query_size
    turning = latent.still_size + _turning(latent)
    return np.concatenate([(starts + turning).reshape(-1), (starts + np.arange(latent.still_size)).reshape(-1)])


def key_rows(latent: LatentConfig) -> NDArray[np.int64]:
    """Returns the row in a checkpoint of each row of the key: the rotating elements, then the latent vector."""
    return np.concatenate([latent.kv_rank + _turning(latent), np.arange(latent.kv_rank)])


def _turning(latent: LatentConfig) -> NDArray[np.int64]:
    """Returns the order in which the first elements of all rotary pairs come before the second ones."""
    places = np.arange(latent.rotary_size)
    return np.concatenate([places[::2], places[1::2]]) if latent.pairs_neighbors else places
