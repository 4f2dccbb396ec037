"""Draws of one token per row of logits, without sorting the vocabulary.

The cumulative distribution is inverted at one uniform number per row, as in `sorted_draw.py`: in descending order of
probability where top-k or top-p cut it off, else in the order of the vocabulary. In descending order, the token at
which it passes a number is found by bisection over the bits of the logit: radix select, by masses instead of counts.
Masses are probabilities as integers, so that their sums are exact and do not depend on the order of addition.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 4096
WARP_COUNT = 16
TERMS = 5
"""Numbers per row: temperature, top-k (0: all), top-p (1: all), min-p, and a uniform number in [0, 1)."""
MASS_BITS = 40
"""The likeliest token has a mass of 2^40, and one of less than 2^-40 of its probability none."""
PEAK_MASS = tl.constexpr(float(1 << MASS_BITS))
MIN_KEY = tl.constexpr(-(1 << 31))
"""Key below those of all logits, for places beyond the vocabulary."""


@triton.jit
def read_block(logits, start, size, temperature, peak, block: tl.constexpr):
    """Returns the keys of some logits, integers in their order, and their weights, fp32: the probabilities as shares of
    the largest one. Equal logits have equal keys, zeros of both signs too."""
    places = start + tl.arange(0, block)
    is_place = places < size
    numbers = tl.load(logits + places, mask=is_place, other=-float("inf")).to(tl.float32)
    scaled = tl.div_rn(numbers, temperature) + 0.0
    bits = scaled.to(tl.int32, bitcast=True)
    keys = tl.where(is_place, bits ^ ((bits >> 31) & 0x7FFFFFFF), MIN_KEY)
    return keys, tl.exp(scaled - peak)


@triton.jit
def to_mass(weights):
    return (weights * PEAK_MASS).to(tl.int64)


@triton.jit
def find_peak(logits, size, temperature, block: tl.constexpr):
    """Returns the largest logit, over the temperature."""
    largest = tl.full([block], -float("inf"), tl.float32)
    for start in range(0, size, block):
        places = start + tl.arange(0, block)
        numbers = tl.load(logits + places, mask=places < size, other=-float("inf")).to(tl.float32)
        largest = tl.maximum(largest, numbers)
    return tl.div_rn(tl.max(largest, axis=0), temperature)


@triton.jit
def add_up(logits, size, temperature, peak, min_p, block: tl.constexpr):
    """Returns the mass of all tokens, and of those that min-p keeps (Nguyen et al., 2024)."""
    all_masses = tl.zeros([block], tl.int64)
    kept_masses = tl.zeros([block], tl.int64)
    for start in range(0, size, block):
        _, weights = read_block(logits, start, size, temperature, peak, block)
        masses = to_mass(weights)
        all_masses += masses
        kept_masses += tl.where(weights >= min_p, masses, 0)
    return tl.sum(all_masses, axis=0), tl.sum(kept_masses, axis=0)


@triton.jit
def find_key(logits, size, temperature, peak, target, counts: tl.constexpr, block: tl.constexpr):
    """Finds the largest key for which the tokens with it or a larger one have a mass of at least `target`, or are as
    many. Each pass over the row settles two bits."""
    key = tl.full((), MIN_KEY, tl.int32)
    for level in range(16):
        step = tl.full((), 1, tl.int32) << (30 - 2 * level)
        first, second = key + step, key + step + step
        third = second + step
        firsts, seconds, thirds = tl.zeros([block], tl.int64), tl.zeros([block], tl.int64), tl.zeros([block], tl.int64)
        for start in range(0, size, block):
            keys, weights = read_block(logits, start, size, temperature, peak, block)
            amounts = tl.full([block], 1, tl.int64) if counts else to_mass(weights)
            firsts += tl.where(keys >= first, amounts, 0)
            seconds += tl.where(keys >= second, amounts, 0)
            thirds += tl.where(keys >= third, amounts, 0)
        passed = (tl.sum(firsts, axis=0) >= target).to(tl.int32) + (tl.sum(seconds, axis=0) >= target).to(tl.int32)
        key += step * (passed + (tl.sum(thirds, axis=0) >= target).to(tl.int32))
    return key


@triton.jit
def look_at(logits, size, temperature, peak, key, block: tl.constexpr):
    """Returns the number and the mass of the tokens with larger keys, and the mass of each token with this one."""
    counts, masses = tl.zeros([block], tl.int64), tl.zeros([block], tl.int64)
    equal = tl.zeros([block], tl.int64)
    for start in range(0, size, block):
        keys, weights = read_block(logits, start, size, temperature, peak, block)
        mass = to_mass(weights)
        counts += tl.where(keys > key, 1, 0)
        masses += tl.where(keys > key, mass, 0)
        equal = tl.maximum(equal, tl.where(keys == key, mass, 0))
    return tl.sum(counts, axis=0), tl.sum(masses, axis=0), tl.max(equal, axis=0)


@triton.jit
def find_place(logits, size, temperature, peak, target, key, min_p, is_ordered, block: tl.constexpr):
    """Finds the first place up to which the tokens are more than `target`: in number, of those with a key, where rows
    are ordered, else in mass, of those that min-p keeps."""
    before = tl.full((), 0, tl.int64)
    place = size - 1
    for start in range(0, size, block):
        keys, weights = read_block(logits, start, size, temperature, peak, block)
        masses = tl.where(weights >= min_p, to_mass(weights), 0)
        amounts = tl.where(is_ordered, (keys == key).to(tl.int64), masses)
        after = before + tl.sum(amounts, axis=0)
        if (before <= target) & (after > target):
            running = before + tl.cumsum(amounts, axis=0)
            place = start + tl.sum((running <= target).to(tl.int32), axis=0)
        before = after
    return place


@triton.jit
def find_head(logits, size, temperature, peak, total, top_k, top_p, block: tl.constexpr):
    """Returns the mass of the top-k, and of the top-p (Holtzman et al., 2020) of those."""
    head = total
    if top_k > 0:
        key = find_key(logits, size, temperature, peak, top_k, True, block)
        count, mass, equal = look_at(logits, size, temperature, peak, key, block)
        head = mass + (top_k - count) * equal
    if top_p < 1:
        least = tl.maximum(tl.ceil(top_p * head.to(tl.float64)).to(tl.int64), 1)
        key = find_key(logits, size, temperature, peak, least, False, block)
        _, mass, equal = look_at(logits, size, temperature, peak, key, block)
        equal = tl.maximum(equal, 1)
        head = tl.minimum(head, mass + (least - mass + equal - 1) // equal * equal)
    return head


@triton.jit(do_not_specialize=["row_count"])
def token_draw_kernel(logits, terms, token_ids, row_stride, row_count, size, block: tl.constexpr):
    """Draws the token of one row. Grid: rows."""
    row = tl.program_id(0)
    logits += row.to(tl.int64) * row_stride
    temperature = tl.load(terms + row).to(tl.float32)
    top_k = tl.load(terms + row_count + row).to(tl.int64)
    top_p = tl.load(terms + 2 * row_count + row)
    min_p = tl.load(terms + 3 * row_count + row).to(tl.float32)
    uniform = tl.load(terms + 4 * row_count + row)
    peak = find_peak(logits, size, temperature, block)
    total, kept = add_up(logits, size, temperature, peak, min_p, block)
    is_ordered = (top_k > 0) | (top_p < 1)
    key = tl.full((), MIN_KEY, tl.int32)
    if is_ordered:
        head = find_head(logits, size, temperature, peak, total, top_k, top_p, block)
        # What min-p keeps is a head of the same order.
        head = tl.minimum(head, kept)
        target = tl.minimum((uniform * head.to(tl.float64)).to(tl.int64), head - 1)
        key = find_key(logits, size, temperature, peak, target + 1, False, block)
        _, mass, equal = look_at(logits, size, temperature, peak, key, block)
        target = (target - mass) // tl.maximum(equal, 1)
    else:
        target = tl.minimum((uniform * kept.to(tl.float64)).to(tl.int64), kept - 1)
    place = find_place(logits, size, temperature, peak, target, key, min_p, is_ordered, block)
    tl.store(token_ids + row, tl.minimum(place, size - 1).to(tl.int64))


def draw_tokens(logits: Tensor, terms: Tensor) -> Tensor:
    """Draws one token id per row of `logits` [rows, vocabulary], whose columns lie side by side: int64 [rows]. `terms`:
    fp64 [TERMS, rows], contiguous, of temperatures above 0. A row's token does not depend on the other rows."""
    token_ids = torch.empty(len(logits), dtype=torch.int64, device=logits.device)
    if len(logits):
        row_count, size = logits.shape
        token_draw_kernel[(row_count,)](
            logits, terms, token_ids, logits.stride(0), row_count, size, block=BLOCK, num_warps=WARP_COUNT
        )
    return token_ids
