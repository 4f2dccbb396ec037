"""Pooled hidden states equal sentence-transformers' formulas, and what is not finite stays so."""

import numpy as np
import pytest

from headrace.engine.checkpoints.facts.pooling import Pooling
from headrace.engine.engines.pooling import MIN_LENGTH, normalized, pool

HIDDEN = np.array([[1, -2, 4], [3, 0, -4], [2, 5, 3]], np.float32)


@pytest.mark.parametrize(
    ("pooling", "expected"),
    [(Pooling.CLS, [1, -2, 4]), (Pooling.LAST, [2, 5, 3]), (Pooling.MEAN, [2, 1, 1]), (Pooling.MAX, [3, 5, 4])],
)
def test_each_pooling_takes_what_its_name_says(pooling: Pooling, expected: list[float]) -> None:
    found = pool(HIDDEN, pooling)
    assert found.dtype == np.float32
    assert found.tolist() == expected


@pytest.mark.parametrize("pooling", [Pooling.MEAN, Pooling.MAX])
def test_what_is_not_finite_stays_so(pooling: Pooling) -> None:
    broken = HIDDEN.copy()
    broken[0, 0], broken[1, 0], broken[1, 1] = np.inf, -np.inf, np.nan
    found = pool(broken, pooling)
    assert not np.isfinite(found[:2]).any()
    assert np.isfinite(found[2])
    assert not np.isfinite(normalized(found)).all()


def test_vectors_have_unit_length_and_zeros_stay() -> None:
    assert normalized(np.array([3, 0, -4], np.float32)).tolist() == pytest.approx([0.6, 0, -0.8])
    assert normalized(np.zeros(3, np.float32)).tolist() == [0, 0, 0]
    assert normalized(np.full(4, MIN_LENGTH / 4, np.float32)).tolist() == pytest.approx([0.25] * 4)


def test_squares_beyond_fp32_are_no_limit() -> None:
    assert normalized(np.full(4, 3e38, np.float32)).tolist() == [0.5] * 4


def test_a_view_of_a_buffer_is_copied() -> None:
    buffer = HIDDEN.copy()
    found = pool(buffer, Pooling.LAST)
    buffer[:] = 0
    assert found.tolist() == [2, 5, 3]
