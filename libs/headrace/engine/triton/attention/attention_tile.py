"""Steps of a softmax over tiles of tokens (Milakov and Gimelshein, 2018), the same for decodes and prefills.

Tiles and splits are counted from the start of the text. So a query adds up the same tiles in the same order, whichever
kernel it is in, and whatever other queries are there: a tile that it does not see adds exact zeros.
"""

import torch
import triton
import triton.language as tl

SPLIT_TOKENS = 256
LOG2_E = tl.constexpr(1.4426950408889634)
"""Factor of scores: the GPU's exponential is that of 2."""
MAX_TILE = 64
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
    is_whole: tl.constexpr,
):
    """Adds a tile of tokens to a softmax of base 2. Returns its largest score, its sum of weights and its weighted sum.
    Loads `is_token` [tile], of which each row sees `is_seen` [rows or 1, tile], from `slots` int32 [tile] of one KV
    head. If the tile is whole, each row sees all of it."""
    is_state = is_token[:, None] & (elements < head_size)[None, :]
    places = slots[:, None] * head_size + elements[None, :]
    keys = tl.load(key_states + places, mask=is_state, other=0.0)
    products = tl.dot(query, tl.trans(keys.to(tl.float32).to(query.dtype)), input_precision="ieee")
    factors = scale
    if has_scales:
        factors = factors * tl.load(key_scales + slots, mask=is_token, other=0.0)[None, :]
    if has_cap:
        products = 1 - 2 / (tl.exp(2 * products * factors / soft_cap) + 1)
        factors = soft_cap
    factors = factors * LOG2_E
    scores = products * factors
    if not is_whole:
        scores = tl.where(is_seen, scores, float("-inf"))
    higher = tl.maximum(largest, tl.max(scores, axis=1))
    # A row that has seen nothing yet has -inf, and -inf less -inf is no number.
    origin = tl.where(higher == float("-inf"), 0.0, higher)
    # Said as one operation, or a compiler would fuse it in whole tiles alone, and a row's bits depended on its block.
    exponents = tl.fma(products, tl.broadcast_to(factors, products.shape), -origin[:, None])
    if not is_whole:
        exponents = tl.where(is_seen, exponents, float("-inf"))
    weights = tl.exp2(exponents)
    shrink = tl.exp2(largest - origin)
    total = total * shrink + tl.sum(weights, axis=1)
    values = tl.load(value_states + places, mask=is_state, other=0.0)
    if has_scales:
        weights = weights * tl.load(value_scales + slots, mask=is_token, other=0.0)[None, :]
    values = values.to(tl.float32).to(query.dtype)
    sums = sums * shrink[:, None] + tl.dot(weights.to(query.dtype), values, input_precision="ieee")
    return higher, total, sums
