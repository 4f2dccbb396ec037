"""Exponential functions made of operations that IEEE 754 rounds exactly: the same bits at any place of any tensor, on
every processor. Torch's own differ between the vectorized part of a tensor and its end."""

import torch
from torch import Tensor

MIN_INPUT, MAX_INPUT = -87.0, 88.0
"""Inputs beyond which exp(x) would leave the normal numbers of fp32."""
LOG2_E = 1.44269504088896341
LN2_HIGH, LN2_LOW = 0.693359375, -2.12194440e-4
"""The logarithm of 2 in two parts, of which the first has few bits (Cephes: Moshier, 1989)."""
EXP_TERMS = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
MANTISSA_BITS, EXPONENT_BIAS = 23, 127
ATANH_TERMS = tuple(1 / (2 * power + 1) for power in range(9, 0, -1))


def exp(inputs: Tensor) -> Tensor:
    """Computes e to the power of fp32 numbers, within two units in the last place. Smaller and larger ones than fp32
    can show are taken for the last that it can."""
    bounded = inputs.clamp(MIN_INPUT, MAX_INPUT)
    powers = (bounded * LOG2_E + 0.5).floor()
    rest = bounded - powers * LN2_HIGH - powers * LN2_LOW
    series = torch.full_like(rest, EXP_TERMS[0])
    for term in EXP_TERMS[1:]:
        series = series * rest + term
    fraction = series * (rest * rest) + rest + 1.0
    return fraction * ((powers.int() + EXPONENT_BIAS) << MANTISSA_BITS).view(torch.float32)


def sigmoid(inputs: Tensor) -> Tensor:
    """Computes 1 / (1 + e^-x) of fp32 numbers."""
    return (exp(-inputs) + 1.0).reciprocal()


def softplus(inputs: Tensor) -> Tensor:
    """Computes log(1 + e^x) of fp32 numbers, as max(x, 0) + 2 atanh(u / (2 + u)) with u = e^-|x|."""
    small = exp(-inputs.abs())
    ratio = small / (small + 2.0)
    square = ratio * ratio
    series = torch.full_like(square, ATANH_TERMS[0])
    for term in ATANH_TERMS[1:]:
        series = series * square + term
    return inputs.clamp(min=0.0) + (series * square + 1.0) * ratio * 2.0


def silu(inputs: Tensor) -> Tensor:
    """Computes x / (1 + e^-x) of fp32 numbers."""
    return inputs * sigmoid(inputs)
