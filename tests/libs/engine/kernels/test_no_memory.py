"""Kernels that find no memory say so, on whichever thread, and compute the next call as if nothing had happened."""

import os
import subprocess
import sys

import pytest

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are Linux's; to run it: take a Linux machine"),
]
START = """
import resource, sys
from dataclasses import replace
import numpy as np
from headrace.engine.kernels.context import KernelContext
from headrace.engine.kernels.library import Function
from headrace.engine.kernels.packed_weight import pack_codes, pack_plain
from headrace.engine.kernels.storage import Storage
from headrace.engine.memory.aligned import address

def limit(spare):
    used = int(open("/proc/self/statm").read().split()[0]) * 4096
    resource.setrlimit(resource.RLIMIT_AS, (used + spare, resource.RLIM_INFINITY))

def unlimit():
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
"""
WORKSPACE = """
context = KernelContext(2)
codes, zeros = np.full((32, 4096), 3, np.uint8), np.full((32, 32), 8, np.uint8)
weight = pack_codes(codes, np.ones((32, 32), np.float32), zeros, Storage.U4, np.arange(32))
inputs, outputs = np.ones((20000, 4096), np.float32), np.zeros((20000, 32), np.float32)
matrix = weight.matrix(exact=False)
multiply = lambda rows: context.multiply(matrix, address(inputs), None, address(outputs), rows)
multiply(100)
expected = outputs[:100].copy()
limit(8 << 20)
for _ in range(3):
    try:
        multiply(20000)
    except MemoryError:
        pass
    else:
        sys.exit("there was memory")
    outputs[:] = 0
    multiply(100)
    assert (outputs[:100] == expected).all()
unlimit()
multiply(20000)
assert (outputs == expected[0]).all()
"""
TASKS = """
context = KernelContext(4)
def ordered(in_size):
    weight = pack_plain(np.ones((16, in_size), np.float32), Storage.F32, np.arange(16))
    return replace(weight, order=np.arange(in_size, dtype=np.int32)[::-1].copy())
small, large = ordered(1 << 12), ordered(1 << 18)
inputs, outputs = np.ones((4096, 1 << 12), np.float32), np.zeros((4096, 16), np.float32)
context.multiply(small.matrix(exact=False), address(inputs), None, address(outputs), 4096)
wide = np.ones((64, 1 << 18), np.float32)
limit(1 << 20)
for _ in range(3):
    try:
        context.multiply(large.matrix(exact=False), address(wide), None, address(outputs), 64)
    except MemoryError:
        pass
    else:
        sys.exit("there was memory")
    outputs[:] = 0
    context.multiply(small.matrix(exact=False), address(inputs), None, address(outputs), 4096)
    assert (outputs == 1 << 12).all()
unlimit()
context.multiply(large.matrix(exact=False), address(wide), None, address(outputs), 64)
assert (outputs[:64] == 1 << 18).all()
"""
"""The calling thread takes as much for both products. What each thread takes, a copy of a row, fits for one."""
FIRST_USE = """
context = KernelContext(4)
weight = pack_plain(np.ones((16, 256), np.float32), Storage.F32, np.arange(16))
weight = replace(weight, order=np.arange(256, dtype=np.int32)[::-1].copy())
inputs, outputs = np.ones((256, 256), np.float32), np.zeros((256, 16), np.float32)
matrix = weight.matrix(exact=False)
limit(1 << 20)
context.multiply(matrix, address(inputs), None, address(outputs), 256)
unlimit()
assert (outputs == 256).all()
"""
"""Threads of a pool take little memory for themselves at their first task, after the limit was set."""
ENCODER = """
from headrace.engine.kernels.choice.trials import trial_encoder
context = KernelContext(2)
small = trial_encoder.TrialEncoder(np.random.default_rng(1))
expected = small.run(context)
usual, many = trial_encoder.LENGTHS, (33,) * 2000
trial_encoder.LENGTHS = many
large = trial_encoder.TrialEncoder(np.random.default_rng(1))
limit(24 << 20)
for _ in range(3):
    trial_encoder.LENGTHS = many
    try:
        large.run(context)
    except MemoryError as error:
        assert "the kernels have no memory" in str(error), error
    else:
        sys.exit("there was memory")
    trial_encoder.LENGTHS = usual
    assert (small.run(context) == expected).all()
unlimit()
trial_encoder.LENGTHS = many
assert np.isfinite(large.run(context)).all()
"""
THREADS = """
limit(24 << 20)
try:
    KernelContext(200)
except RuntimeError as error:
    assert "cannot run here" in str(error)
else:
    sys.exit("there was memory for the stacks of 200 threads")
unlimit()
weight = pack_plain(np.ones((16, 64), np.float32), Storage.F32, np.arange(16))
assert (KernelContext(4).product(weight, np.ones((8, 64), np.float32)) == 64).all()
"""


BODIES = {
    "workspace": WORKSPACE,
    "tasks": TASKS,
    "first use": FIRST_USE,
    "encoder": ENCODER,
    "threads": THREADS,
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_want_of_memory_is_an_error_of_one_call(body: str) -> None:
    # One heap for all threads, so that what one of them asks for counts at once.
    environment = os.environ | {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "131072"}
    command = [sys.executable, "-c", START + body]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert done.returncode == 0, f"{done.returncode}: {done.stderr[-2000:]}"
