"""Measures the speed of each instruction set's kernels on this machine, for people to read."""

from dataclasses import dataclass

import numpy as np

from headrace.engine.kernels.choice.candidates import candidates
from headrace.engine.kernels.choice.kernel_choice import time_products
from headrace.engine.kernels.context import KernelContext
from headrace.engine.kernels.library import Instructions
from headrace.engine.kernels.packed_weight import PackedWeight, pack_codes
from headrace.engine.kernels.storage import Storage

OUT, IN, GROUP = 5632, 2048, 128
"""Sizes of the matrix and its groups, as in a model with a billion parameters."""
MANY_ROWS = 64


@dataclass(frozen=True, slots=True)
class KernelSpeed:
    """Speed of products with a 4-bit matrix."""

    instructions: Instructions
    gigabytes_per_second: float
    """Gigabytes of weights per second, with one row: a decode of one sequence."""
    gigaoperations_per_second: float
    """Billions of multiplications and additions per second, with many rows: a prefill."""


def measure_kernels(thread_count: int) -> list[KernelSpeed]:
    """Measures the usable instruction sets, fastest first."""
    right = [each.instructions for each in candidates() if not each.reason]
    context, weight = KernelContext(thread_count), _random_weight()
    one, many = (time_products(context, [weight], rows, right) for rows in (1, MANY_ROWS))
    operations = 2 * MANY_ROWS * OUT * IN
    return [
        KernelSpeed(each, weight.byte_count / one[each] / 1e9, operations / many[each] / 1e9)
        for each in sorted(right, key=one.__getitem__)
    ]


def _random_weight() -> PackedWeight:
    codes = np.random.default_rng(1).integers(0, 16, (OUT, IN), np.uint8)
    scales, zeros = np.ones((OUT, IN // GROUP), np.float32), np.full((OUT, IN // GROUP), 8, np.uint8)
    return pack_codes(codes, scales, zeros, Storage.U4, np.arange(OUT))
