"""Measures what this machine can do at most: bytes from memory and operations per second, as the kernels reach them."""

from dataclasses import dataclass

import numpy as np

from headrace.engine.kernels.context import KernelContext
from headrace.engine.kernels.kernel_choice import time_products
from headrace.engine.kernels.kernel_speed import MANY_ROWS, measure_kernels
from headrace.engine.kernels.packed_weight import PackedWeight, pack_plain
from headrace.engine.kernels.self_test import candidates
from headrace.engine.kernels.storage import Storage

STREAMED = (16_384, 2048)
"""Matrix [out, in] that no cache of a usual processor holds: 128 MiB in float32."""
REUSED = (2048, 1024)


@dataclass(frozen=True, slots=True)
class MachineRates:
    """Best of several runs of products with plain and with coded weights."""

    memory_bandwidth: float
    """Bytes per second of weights that one row of inputs reads."""
    float_rate: float
    """Operations per second in float32."""
    integer_rate: float
    """Operations per second of codes times inputs rounded to 8 bits."""


def measure_rates(thread_count: int) -> MachineRates:
    """Measures the machine with `thread_count` threads. Takes about a second, and 256 MiB for that time."""
    instructions = [each.instructions for each in candidates() if not each.reason]
    context = KernelContext(thread_count)
    streamed, reused = _matrix(*STREAMED), _matrix(*REUSED)
    one = min(time_products(context, streamed, 1, instructions).values())
    many = min(time_products(context, reused, MANY_ROWS, instructions).values())
    coded = max(speed.gigaoperations_per_second for speed in measure_kernels(thread_count))
    return MachineRates(streamed.byte_count / one, 2 * MANY_ROWS * REUSED[0] * REUSED[1] / many, coded * 1e9)


def _matrix(out_size: int, in_size: int) -> PackedWeight:
    return pack_plain(np.ones((out_size, in_size), np.float32), Storage.F32, np.arange(out_size))
