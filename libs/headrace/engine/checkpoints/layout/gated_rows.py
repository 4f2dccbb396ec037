"""Order of the rows of products whose checkpoints have several kinds of rows for each head in turn."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig


def gated_rows(config: DecoderConfig) -> NDArray[np.int64]:
    """Returns the row in a checkpoint of each row of queries, keys and values, and gates: there each query head is
    followed by its gate."""
    size, count = config.head_size, config.head_count
    queries, gates = split_rows(count, (size, size))
    keys_and_values = 2 * count * size + np.arange(2 * config.kv_head_count * size)
    return np.concatenate([queries, keys_and_values, gates])


def grouped_rows(config: DecoderConfig) -> NDArray[np.int64]:
    """Returns the row in a checkpoint of each row of queries, keys and values: there the queries of each KV head are
    followed by its key and its value."""
    size, count = config.head_size, config.kv_head_count
    return np.concatenate(split_rows(count, (config.head_count // count * size, size, size)))


def split_rows(head_count: int, sizes: Sequence[int]) -> list[NDArray[np.int64]]:
    """Returns the rows of each kind, in order of heads, where a checkpoint has `sizes` rows of all kinds for each
    head."""
    starts = np.arange(head_count)[:, None] * sum(sizes)
    firsts = np.cumsum([0, *sizes[:-1]])
    return [(starts + first + np.arange(size)).reshape(-1) for first, size in zip(firsts, sizes, strict=True)]
