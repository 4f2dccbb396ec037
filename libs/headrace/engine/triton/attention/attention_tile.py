"""Steps of a softmax over tiles of tokens (Milakov and Gimelshein, 2018), the same for decodes and prefills.

Tiles and splits are counted from the start of the text. So a query adds up the same tiles in the same order, whichever
kernel it is in, and whatever other queries are there: a tile that it does not see adds exact zeros.
"""

import torch
import triton
import triton.language as tl

SPLIT_TOKENS = 256
MAX_TILE = 32
MIN_TILE = 16
"""Tokens of the smallest product on tensor cores."""
TILE_BYTES = 1 << 14
"""Most bytes of a tile of keys: with as many of values, and the next ones on their way, it fits the shared memory."""


def padded(size: int) -> int:
    """Returns the elements of a head as kernels hold them: a power of two, and enough for tensor cores."""
    return max(MIN_TILE, 1 << (size - 1).bit_length())


def tile_of(head_size: int, dtype: torch.dtype) -> int:
    """Returns the tokens of a tile: it depends on the model alone, and so never on a batch."""
    fitting = TILE_BYTES // (padded(head_size) * dtype.itemsize)
    return max(MIN_TILE, min(MAX_TILE, fitting))


@triton.jit
def attend_tile(
    query,
    key_states,
    value_states,
    key_scales,
    value_scales,
    slots,
    is_token,
    is_seen,
    elements,
    scale,
    soft_cap,
    largest,
    total,
    sums,
    head_size: tl.constexpr,
    has_scales: tl.constexpr,
    has_cap: tl.constexpr,
):
    """Adds a tile of tokens to a softmax. Returns its largest score, its sum of weights and its weighted sum. Loads
    `is_token` [tile], of which each row sees `is_seen` [rows or 1, tile], from `slots` int32 [tile] of one KV head."""
    is_state = is_token[:, None] & (elements < head_size)[None, :]
    places = slots[:, None] * head_size + elements[None, :]
    keys = tl.load(key_states + places, mask=is_state, other=0.0)
    products = tl.dot(query, tl.trans(keys.to(tl.float32).to(query.dtype)), input_precision="ieee") * scale
    if has_scales:
        products = products * tl.load(key_scales + slots, mask=is_token, other=0.0)[None, :]
    if has_cap:
        products = soft_cap * (1 - 2 / (tl.exp(2 * products / soft_cap) + 1))
    scores = tl.where(is_seen, products, float("-inf"))
    higher = tl.maximum(largest, tl.max(scores, axis=1))
    # A row that has seen nothing yet has -inf, and -inf less -inf is no number.
    origin = tl.where(higher == float("-inf"), 0.0, higher)
    weights = tl.exp(scores - origin[:, None])
    shrink = tl.exp(largest - origin)
    total = total * shrink + tl.sum(weights, axis=1)
    values = tl.load(value_states + places, mask=is_state, other=0.0)
    if has_scales:
        weights = weights * tl.load(value_scales + slots, mask=is_token, other=0.0)[None, :]
    values = values.to(tl.float32).to(query.dtype)
    sums = sums * shrink[:, None] + tl.dot(weights.to(query.dtype), values, input_precision="ieee")
    return higher, total, sums


@triton.jit
def add_split(largest, total, sums, own_largest, own_total, own_sums):
    """Adds a split to those before it: largest scores and sums of weights [rows], weighted sums [rows, head]. A split
    that a row does not see changes nothing."""
    higher = tl.maximum(largest, own_largest)
    origin = tl.where(higher == float("-inf"), 0.0, higher)
    shrink = tl.exp(largest - origin)
    own_shrink = tl.exp(own_largest - origin)
    return (
        higher,
        total * shrink + own_total * own_shrink,
        sums * shrink[:, None] + own_sums * own_shrink[:, None],
    )
