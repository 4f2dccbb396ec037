"""A core that another process keeps busy takes from the kernels what it takes, and does not hold the other core up."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from tests.libs.engine.needed_kernels import needs_kernels

from headrace.engine.checkpoints.packing.tensor_packing import pack
from headrace.engine.checkpoints.weights.quantized_matrix import QuantizedMatrix
from headrace.engine.kernels.context import KernelContext
from headrace.engine.kernels.packed_weight import PackedWeight

pytestmark = [
    pytest.mark.alone,
    needs_kernels,
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one core; to run it: two cores or more"),
]

SIZE, GROUP = 2048, 128
LEAST_SHARE = 0.35
"""Least share of the rate without the other process, which takes a quarter to a half of two cores; the rest is for
noise."""
ROUNDS = 6
SPIN = "while True: pass"


@pytest.fixture
def two_cores() -> Iterator[list[int]]:
    """This thread, and those that it starts, run on two cores and no other."""
    allowed = os.sched_getaffinity(0)
    cores = sorted(allowed)[:2]
    os.sched_setaffinity(0, cores)
    yield cores
    os.sched_setaffinity(0, allowed)


@contextlib.contextmanager
def spinning(core: int) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that keeps a core busy whenever it is not stopped."""
    with subprocess.Popen([sys.executable, "-c", SPIN]) as process:
        try:
            os.sched_setaffinity(process.pid, {core})
            process.send_signal(signal.SIGSTOP)
            yield process
        finally:
            process.kill()


def products_per_second(context: KernelContext, weight: PackedWeight, seconds: float = 0.25) -> float:
    """One row, as in decoding."""
    row = np.ones((1, SIZE), np.float32)
    count, started = 0, time.monotonic()
    while time.monotonic() < started + seconds:
        for _ in range(20):
            context.product(weight, row)
        count += 20
    return count / (time.monotonic() - started)


def test_a_busy_core_costs_no_more_than_it_takes(two_cores: list[int]) -> None:
    codes = torch.randint(0, 16, (SIZE, SIZE), dtype=torch.uint8)
    scales, zeros = torch.ones(SIZE, SIZE // GROUP), torch.zeros(SIZE, SIZE // GROUP, dtype=torch.uint8)
    weight = pack(QuantizedMatrix(codes, scales, zeros, 4, GROUP))
    context = KernelContext(2)
    alone, beside = 0.0, 0.0
    with spinning(two_cores[1]) as process:
        for _ in range(ROUNDS):
            alone = max(alone, products_per_second(context, weight))
            process.send_signal(signal.SIGCONT)
            beside = max(beside, products_per_second(context, weight))
            process.send_signal(signal.SIGSTOP)
    assert beside >= LEAST_SHARE * alone
