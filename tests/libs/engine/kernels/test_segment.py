"""Attention in segments: the same bits with any number of threads, whether they share a sequence or not, in any chunks,
with and without a window, on every instruction set; and the numbers that softmax gives."""

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.libs.engine.kernels.sequence_attention import USUAL, attend, inputs
from tests.libs.engine.needed_kernels import needs_kernels

from headrace.engine.kernels.context import Floats
from headrace.engine.kernels.library import Instructions, available
from headrace.engine.kernels.storage import Storage

pytestmark = needs_kernels

HEADS, KV_HEADS, HEAD, LENGTH = USUAL.head_count, USUAL.kv_head_count, USUAL.head_size, USUAL.length
KINDS = (Storage.F32, Storage.BF16, Storage.F16, Storage.S8, Storage.FP8)
TOLERANCE = {Storage.F32: 1e-5, Storage.F16: 3e-3, Storage.BF16: 2e-2, Storage.S8: 5e-2, Storage.FP8: 0.3}
"""Largest errors, of values that are around 1 in size: half a unit in the last place of a score is what matters."""


def expected(window: int, whole: Floats | None = None) -> NDArray[np.float64]:
    whole = (inputs() if whole is None else whole).astype(np.float64)
    share = HEADS // KV_HEADS
    queries, keys, values = np.split(whole, [HEADS, HEADS + KV_HEADS], axis=1)
    scores = np.einsum("qhd,khd->hqk", queries, np.repeat(keys, share, axis=1)) * HEAD**-0.5
    distance = np.arange(LENGTH)[:, None] - np.arange(LENGTH)
    hidden = (distance < 0) | ((distance >= window) if window else False)
    weights = np.exp(np.where(hidden, -np.inf, scores - scores.max(axis=-1, keepdims=True)))
    found: NDArray[np.float64] = np.einsum("hqk,khd->qhd", weights, np.repeat(values, share, axis=1))
    return found / weights.sum(axis=-1).T[:, :, None]


@pytest.mark.parametrize("window", [0, 40, 700])
@pytest.mark.parametrize("kind", KINDS)
def test_it_is_softmax(kind: Storage, window: int) -> None:
    found = attend(kind, (), threads=1, window=window)
    assert np.abs(found - expected(window)).max() < TOLERANCE[kind]


@pytest.mark.parametrize("window", [0, 40, 700])
@pytest.mark.parametrize("kind", KINDS)
def test_threads_and_chunks_change_no_bit(kind: Storage, window: int) -> None:
    """Eight threads share the segments of a chunk of few rows; one thread never does."""
    whole = attend(kind, (), threads=1, window=window)
    for cuts in ((511, 512, 513, 1024), (30, 500, 530, 1099), (1098, 1099)):
        for threads in (1, 8):
            assert attend(kind, cuts, threads=threads, window=window).tobytes() == whole.tobytes(), (cuts, threads)


@pytest.mark.parametrize("kind", KINDS)
def test_all_instruction_sets_give_the_same_bits(kind: Storage) -> None:
    cuts = (600, 1090)
    whole = attend(kind, cuts, threads=2, instructions=Instructions.PORTABLE)
    for instructions in available():
        found = attend(kind, cuts, threads=8, window=0, instructions=instructions)
        assert found.tobytes() == whole.tobytes(), instructions
