"""Order of the elements of heads whose rotary pairs are neighbors, or turn the other way."""

import numpy as np
from numpy.typing import NDArray

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig


def turned_rows(config: DecoderConfig) -> NDArray[np.int64]:
    """Returns, for each row of queries, keys and values [(heads + 2 kv heads) x head], its row in a checkpoint that has
    rotary pairs in another order. The first elements of all pairs of a head come before the second ones, as the kernels
    rotate them, or behind them where the checkpoint has pairs that turn the other way. Scores stay the same, because
    queries and keys have the same order."""
    head, turning = np.arange(config.head_size), config.rotary_size
    if config.pairs_neighbors:
        head[:turning] = np.concatenate([np.arange(0, turning, 2), np.arange(1, turning, 2)])
    if config.turns_backwards:
        head[:turning] = np.roll(head[:turning], turning // 2)
    turned_count = config.head_count + config.kv_head_count
    starts = np.arange(turned_count)[:, None] * config.head_size
    first_value, value_count = turned_count * config.head_size, config.kv_head_count * config.head_size
    return np.concatenate([(starts + head).reshape(-1), first_value + np.arange(value_count)]).astype(np.int64)
