"""Factors that bring the elements of keys to a common size, so that keys of 8 bits keep the small elements beside a few
large ones.

A token's key has one scale, which its largest element decides. Models whose keys have biases (Qwen 2) or uneven norms
(Qwen 3, Gemma 3) make a few elements many times as large as the others. Dividing keys and multiplying queries by the
same factors changes no score, as in SmoothQuant (Xiao et al., 2023), where inputs and weights share factors. Unlike
there, no data is needed: inputs are normalized, so that weights alone tell how large an element becomes.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.weights.quantized_arrays import Floats

MAX_EXPONENT = 10
DEVIATIONS_OF_PEAK = 3.0
"""Standard deviations from the mean that hardly any token's element exceeds."""
COLUMNS = 256
"""Columns of a projection that are squared at a time: they fit a core's cache."""

_Doubles = NDArray[np.float64]


def choose_key_factors(
    keys: Floats, bias: Floats | None, input_norm: Floats, key_norm: Floats | None, config: DecoderConfig
) -> Floats:
    """Chooses a power of two, at least 1, for each element of the keys of a layer [kv heads x head]. The two elements
    of a rotary pair share one, unless a norm comes behind: rotation spreads large values over both.

    `keys` [kv heads x head, hidden] and `bias` [kv heads x head] are the projection, `input_norm` [hidden] the weights
    of the norm before it, `key_norm` [head] those of the norm after it.

    An element adds to a score's error the scale of the key times its factor. So it pays to divide an element until its
    peak is that of ordinary elements, and no further. Sums are rounded in one order, so that every processor chooses
    the same factors.
    """
    heads = (config.kv_head_count, config.head_size)
    # Weights that are nearly out of range have no finite deviation, and then no factor.
    with np.errstate(over="ignore", invalid="ignore"):
        deviation = np.sqrt(_sum_squares(keys, input_norm)).reshape(heads)
    mean = np.zeros(heads) if bias is None else np.abs(bias.astype(np.float64)).reshape(heads)
    gain = np.ones(config.head_size) if key_norm is None else np.abs(key_norm.astype(np.float64))
    if not config.norms_rotated:
        deviation, mean = deviation * gain, mean * gain
    half = config.rotary_size // 2
    mean = _paired(mean, half, _length)
    deviation = _paired(deviation, half, np.maximum)
    peaks = mean + DEVIATIONS_OF_PEAK * deviation
    if config.norms_rotated:
        peaks = peaks * gain
    with np.errstate(divide="ignore", invalid="ignore"):
        excess = peaks / np.median(peaks, axis=1, keepdims=True)
    return _power_of_two_below(excess).reshape(-1)


def has_effect(factors: Floats) -> bool:
    """Whether any of the factors is not 1."""
    return bool((factors != 1).any())


def are_key_factors(numbers: Floats) -> bool:
    """Whether all numbers are powers of two from 1 to the largest factor."""
    mantissas, exponents = np.frexp(numbers)
    return bool(((mantissas == 0.5) & (exponents >= 1) & (exponents <= MAX_EXPONENT + 1)).all())


def _sum_squares(keys: Floats, input_norm: Floats) -> _Doubles:
    """Returns the sum of the squares of each row, weighted by the norm before it. Adds rows of the transpose, whose
    order does not depend on the width of vector registers."""
    total = np.zeros(len(keys))
    for first in range(0, len(input_norm), COLUMNS):
        part = slice(first, first + COLUMNS)
        columns = np.ascontiguousarray((keys[:, part] * input_norm[part]).T, dtype=np.float64)
        total += np.add.reduce(columns * columns, axis=0)
    return total


def _paired(elements: _Doubles, half: int, join: Callable[[_Doubles, _Doubles], _Doubles]) -> _Doubles:
    """Replaces both elements of each rotary pair by what `join` makes of them: those of the first `half` columns have
    their partners in the next."""
    pairs = join(elements[:, :half], elements[:, half : 2 * half])
    return np.concatenate([pairs, pairs, elements[:, 2 * half :]], axis=1)


def _length(first: _Doubles, second: _Doubles) -> _Doubles:
    """Returns sqrt(first^2 + second^2). numpy.hypot is the C library's, and these bits may depend on no library."""
    length: _Doubles = np.sqrt(first * first + second * second)
    return length


def _power_of_two_below(numbers: _Doubles) -> Floats:
    """Returns the largest power of two that is no larger, within the limits; 1 for numbers that are not finite."""
    _, exponents = np.frexp(np.where(np.isfinite(numbers), numbers, 1.0))
    factors: Floats = np.ldexp(np.float32(1), np.clip(exponents - 1, 0, MAX_EXPONENT))
    return factors
