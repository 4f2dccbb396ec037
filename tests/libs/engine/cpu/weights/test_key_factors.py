"""Factors of keys: powers of two, one for each rotary pair, from the weights alone."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from headrace.demo_model import CHECKPOINT
from headrace.engine.checkpoints.model_config import read_model_config
from headrace.engine.checkpoints.weights.quantized_arrays import Floats
from headrace.engine.cpu.weights.key_factors import (
    COLUMNS,
    MAX_EXPONENT,
    _sum_squares,
    are_key_factors,
    choose_key_factors,
    has_effect,
)

HIDDEN, HEAD, KV_HEADS, HALF = 64, 32, 2, 16
MODEL = replace(
    read_model_config(CHECKPOINT),
    hidden_size=HIDDEN,
    head_size=HEAD,
    rotary_size=HEAD,
    head_count=6,
    kv_head_count=KV_HEADS,
)
ONES = np.ones(HIDDEN, np.float32)


def keys(seed: int = 0) -> Floats:
    """A projection whose rows are alike in size: elements deviate by 1 from their mean."""
    numbers = np.random.default_rng(seed).standard_normal((KV_HEADS * HEAD, HIDDEN), np.float32)
    return numbers / np.linalg.norm(numbers, axis=1, keepdims=True)


def factors(
    projection: Floats,
    bias: Floats | None = None,
    input_norm: Floats = ONES,
    key_norm: Floats | None = None,
    **facts: Any,
) -> Floats:
    found = choose_key_factors(projection, bias, input_norm, key_norm, replace(MODEL, **facts))
    assert found.dtype == np.float32
    assert are_key_factors(found)
    return found.reshape(KV_HEADS, -1)


def expected(**places: float) -> Floats:
    """Ones but for what is named: `h0_5=8` for pair 5 of KV head 0."""
    found = np.ones((KV_HEADS, HEAD), np.float32)
    for name, factor in places.items():
        head, pair = map(int, name.removeprefix("h").split("_"))
        found[head, [pair, pair + HALF]] = factor
    return found


def test_elements_of_one_size_have_no_factors() -> None:
    found = factors(keys())
    assert (found == 1).all()
    assert not has_effect(found)
    assert not has_effect(factors(keys(), np.full(KV_HEADS * HEAD, 0.5, np.float32)))


@pytest.mark.parametrize(("row", "pair"), [(3, "h0_3"), (HALF + 3, "h0_3"), (HEAD + HALF, "h1_0")])
@pytest.mark.parametrize(("size", "factor"), [(1.9, 1), (2.1, 2), (17, 16), (31, 16), (33, 32), (1e7, 1024)])
def test_a_large_row_lowers_its_pair_in_its_head_alone(row: int, pair: str, size: float, factor: float) -> None:
    projection = keys()
    projection[row] *= np.float32(size)
    assert np.array_equal(factors(projection), expected(**{pair: factor}))


def test_a_norm_behind_the_rotation_tells_the_elements_of_a_pair_apart() -> None:
    norm = np.ones(HEAD, np.float32)
    norm[3] = 17
    found = factors(keys(), key_norm=norm, norms_rotated=True)
    assert (found[:, 3] == 16).all()
    assert (found.sum(axis=1) == HEAD - 1 + 16).all()
    assert np.array_equal(factors(keys(), key_norm=norm), expected(h0_3=16, h1_3=16))


def test_a_bias_counts_as_far_as_rotation_carries_it() -> None:
    """Peaks of ordinary elements are 3. Elements of a pair turn into each other: 45 and 60 make 75."""
    bias = np.zeros(KV_HEADS * HEAD, np.float32)
    bias[[2, HEAD + 7, HEAD + 7 + HALF]] = -90, 45, -60
    assert np.array_equal(factors(keys(), bias), expected(h0_2=16, h1_7=16))
    bias[HEAD + 7 + HALF] = 90
    assert np.array_equal(factors(keys(), bias), expected(h0_2=16, h1_7=32))


def test_a_norm_after_the_projection_counts_in_all_heads() -> None:
    norm = np.ones(HEAD, np.float32)
    norm[5], norm[HALF + 9] = -9, 5
    found = factors(keys(), key_norm=norm)
    assert np.array_equal(found, expected(h0_5=8, h1_5=8, h0_9=4, h1_9=4))
    assert np.array_equal(factors(keys() * np.float32(7), key_norm=norm), found)


def test_the_norm_before_the_projection_counts() -> None:
    """An input that its norm makes large makes the elements large that read it."""
    projection, norm = keys(), ONES.copy()
    projection[:, 0] = 0.0
    projection[3, 0] = 1.0
    assert not has_effect(factors(projection, input_norm=norm))
    norm[0] = 20
    assert np.array_equal(factors(projection, input_norm=norm), expected(h0_3=16))


def test_elements_that_do_not_rotate_have_a_factor_each() -> None:
    projection = keys()
    projection[[1, 20]] *= np.float32(5)
    wanted = np.ones((KV_HEADS, HEAD), np.float32)
    wanted[0, [1, 9, 20]] = 4
    assert np.array_equal(factors(projection, rotary_size=16), wanted)


def test_a_head_without_sizes_has_no_factors() -> None:
    projection = keys()
    projection[:HEAD] = 0
    projection[HEAD] *= np.float32(9)
    assert np.array_equal(factors(projection), expected(h1_0=8))
    projection[3, 3] = np.nan
    assert np.array_equal(factors(projection), expected(h1_0=8))


def test_sums_are_rounded_in_one_order() -> None:
    """Column after column. A sum across a vector register would have other bits on another processor, and a block of
    keys that travels between two such processors another meaning."""
    width = 2 * COLUMNS + 44
    projection = np.random.default_rng(1).standard_normal((KV_HEADS * HEAD, width), np.float32)
    norm = np.random.default_rng(2).random(width, np.float32)
    weighted = (projection * norm).astype(np.float64)
    total = np.zeros(len(projection))
    for first in range(0, len(norm), COLUMNS):
        part = np.zeros(len(projection))
        for column in weighted[:, first : first + COLUMNS].T:
            part += column * column
        total += part
    assert np.array_equal(_sum_squares(projection, norm), total)
    assert not np.array_equal((weighted * weighted).sum(axis=1), total)


@pytest.mark.parametrize("number", [0.0, 0.5, 3.0, -2.0, float(2 ** (MAX_EXPONENT + 1)), np.nan, np.inf])
def test_other_numbers_are_no_factors(number: float) -> None:
    assert are_key_factors(np.array([1, 2, 1024], np.float32))
    assert not are_key_factors(np.array([1, number], np.float32))
