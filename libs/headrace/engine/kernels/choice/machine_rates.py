"""Measures what this machine can do at most: bytes from memory and operations per second, as the kernels reach them."""

from dataclasses import dataclass

import numpy as np

from headrace.engine.kernels.choice.candidates import candidates
from headrace.engine.kernels.choice.kernel_choice import time_products
from headrace.engine.kernels.context import KernelContext
from headrace.engine.kernels.library import Instructions
from headrace.engine.kernels.packed_weight import PackedWeight, pack_codes, pack_plain
from headrace.engine.kernels.storage import Storage

STREAMED = (16_384, 2048)
"""Matrix [out, in] that no cache of a usual processor holds: 128 MiB in float32."""
REUSED = (2048, 1024)
GROUP = 128
MANY_ROWS = 64
ROUNDS = 8


@dataclass(frozen=True, slots=True)
class MachineRates:
    """Best of many runs of products with plain and with coded weights."""

    memory_bandwidth: float
    """Bytes per second of weights that one row of inputs reads."""
    float_rate: float
    """Operations per second in float32."""
    integer_rate: float
    """Operations per second of codes times inputs rounded to 8 bits."""


def measure_rates(thread_count: int) -> MachineRates:
    """Measures the machine with `thread_count` threads. Takes about half a second, and 256 MiB for that time."""
    context = KernelContext(thread_count)
    out_size, in_size = REUSED
    operations = 2 * MANY_ROWS * out_size * in_size
    streamed = _plain(*STREAMED)
    return MachineRates(
        streamed.byte_count / _seconds(context, streamed, 1),
        operations / _seconds(context, _plain(out_size, in_size), MANY_ROWS),
        operations / _seconds(context, _coded(out_size, in_size), MANY_ROWS),
    )


def _seconds(context: KernelContext, weight: PackedWeight, rows: int) -> float:
    """Returns the least time of a product. Many runs, because others of a platform start at the same time."""
    right = [each.instructions for each in candidates() if not each.reason]
    fast = [each for each in right if each > Instructions.PORTABLE] or right
    return min(min(time_products(context, [weight], rows, fast).values()) for _ in range(ROUNDS))


def _plain(out_size: int, in_size: int) -> PackedWeight:
    return pack_plain(np.ones((out_size, in_size), np.float32), Storage.F32, np.arange(out_size))


def _coded(out_size: int, in_size: int) -> PackedWeight:
    codes, zeros = np.full((out_size, in_size), 3, np.uint8), np.full((out_size, in_size // GROUP), 8, np.uint8)
    scales = np.ones((out_size, in_size // GROUP), np.float32)
    return pack_codes(codes, scales, zeros, Storage.U4, np.arange(out_size))
