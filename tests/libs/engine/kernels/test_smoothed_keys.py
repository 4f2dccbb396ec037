"""Attention with key factors: the same bits as without where keys are floating-point numbers, on every instruction set
and in any chunks, and smaller errors where keys are codes and some of their elements are large."""

import numpy as np
import pytest
from tests.libs.engine.kernels.sequence_attention import attend, inputs
from tests.libs.engine.kernels.test_segment import HEAD, HEADS, KV_HEADS, expected
from tests.libs.engine.needed_kernels import needs_kernels

from headrace.engine.kernels.context import Floats
from headrace.engine.kernels.library import Instructions, available
from headrace.engine.kernels.storage import Storage

pytestmark = needs_kernels

FACTORS = np.ones((KV_HEADS, HEAD), np.float32)
FACTORS[0, [3, 27]], FACTORS[1, [0, 24]], FACTORS[1, 47] = 16, 8, 1024
"""Different for each KV head."""
FLOATING = (Storage.F32, Storage.BF16)
"""Numbers that keep their bits when they are divided. Half precision has too few exponents for that."""


def uneven_inputs() -> Floats:
    """Keys that are as many times as large as their factors say, and queries that are as many times smaller: scores are
    those of `inputs`."""
    whole = inputs()
    whole[:, HEADS : HEADS + KV_HEADS] *= FACTORS
    whole[:, :HEADS] /= np.repeat(FACTORS, HEADS // KV_HEADS, axis=0)
    return whole


@pytest.mark.parametrize("kind", FLOATING)
def test_floating_point_keys_keep_every_bit(kind: Storage) -> None:
    plain = attend(kind, (600,), threads=1)
    for instructions in available():
        found = attend(kind, (600,), threads=2, instructions=instructions, factors=FACTORS)
        assert found.tobytes() == plain.tobytes(), instructions


def test_codes_have_the_bits_of_even_keys() -> None:
    """Keys and queries are scaled before they are rounded: the codes are those of keys that were even to begin with."""
    even, whole = attend(Storage.S8, (), threads=1), uneven_inputs()
    assert attend(Storage.S8, (), threads=1, whole=whole, factors=FACTORS).tobytes() == even.tobytes()
    assert attend(Storage.S8, (), threads=1, whole=whole).tobytes() != even.tobytes()


def test_all_instruction_sets_chunks_and_threads_give_the_same_bits() -> None:
    whole = uneven_inputs()
    first = attend(Storage.S8, (), threads=1, whole=whole, instructions=Instructions.PORTABLE, factors=FACTORS)
    for instructions in available():
        for cuts in ((600, 1090), (30, 500, 530, 1099)):
            for threads in (1, 8):
                found = attend(
                    Storage.S8, cuts, threads=threads, whole=whole, instructions=instructions, factors=FACTORS
                )
                assert found.tobytes() == first.tobytes(), (instructions, cuts, threads)


@pytest.mark.parametrize("window", [0, 40])
def test_large_elements_no_longer_cost_the_others_their_bits(window: int) -> None:
    whole = uneven_inputs()
    errors = [
        np.abs(
            attend(Storage.S8, (600,), threads=2, window=window, whole=whole, factors=factors) - expected(window, whole)
        )
        for factors in (FACTORS, None)
    ]
    assert errors[0].max() < 5e-2
    assert errors[0].mean() < errors[1].mean() / 10
