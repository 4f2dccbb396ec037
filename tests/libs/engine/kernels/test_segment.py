"""Attention in segments: the same bits with any number of threads, whether they share a sequence or not, in any chunks,
with and without a window, on every instruction set; and the numbers that softmax gives."""

from array import array
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.libs.engine.needed_kernels import needs_kernels

from headrace.engine.kernels.context import Floats, KernelContext
from headrace.engine.kernels.kv_arena import KvArena, KvShape
from headrace.engine.kernels.library import Instructions, available
from headrace.engine.kernels.storage import Storage
from headrace.engine.kernels.structures import Layer, Model, Step
from headrace.engine.memory.aligned import address

pytestmark = needs_kernels

HEADS, KV_HEADS, HEAD, BLOCK_SIZE = 6, 2, 48, 16
LENGTH = 1100
"""More than two segments, and no whole number of them."""
KINDS = (Storage.F32, Storage.BF16, Storage.F16, Storage.S8, Storage.FP8)
TOLERANCE = {Storage.F32: 1e-5, Storage.F16: 3e-3, Storage.BF16: 2e-2, Storage.S8: 5e-2, Storage.FP8: 0.3}
"""Largest errors, of values that are around 1 in size: half a unit in the last place of a score is what matters."""


def inputs() -> Floats:
    """Queries, keys and values [tokens, heads, head]. Scores differ enough for segments to have different maxima."""
    numbers = np.random.default_rng(1).standard_normal((LENGTH, HEADS + 2 * KV_HEADS, HEAD)).astype(np.float32)
    numbers[LENGTH // 2, HEADS : HEADS + KV_HEADS] *= 3
    return numbers


def attend(
    kind: Storage,
    cuts: tuple[int, ...],
    *,
    threads: int,
    window: int = 0,
    instructions: Instructions | None = None,
    whole: Floats | None = None,
    factors: Floats | None = None,
) -> NDArray[np.float32]:
    """Attends from all tokens of a sequence, in chunks that end at `cuts`. `whole` replaces `inputs`."""
    blocks = LENGTH // BLOCK_SIZE + 1
    shape = KvShape(1, KV_HEADS, HEAD, BLOCK_SIZE, kind)
    arena, context = KvArena(shape, blocks), KernelContext(threads, instructions)
    places = arena.places(0)
    layer = Layer(
        window=window, keys=places.keys, values=places.values, key_scales=places.key_scales,
        value_scales=places.value_scales, key_factors=None if factors is None else address(factors),
    )  # fmt: skip
    model = Model(
        head_count=HEADS, kv_head_count=KV_HEADS, head_size=HEAD, block_size=BLOCK_SIZE, kv_storage=kind,
        block_bytes=shape.block_bytes, block_count=blocks, scale=HEAD**-0.5, vocabulary=1,
    )  # fmt: skip
    table, whole = array("q", reversed(range(blocks))), inputs() if whole is None else whole
    outputs = np.empty((LENGTH, HEADS, HEAD), np.float32)
    for begin, end in pairwise((0, *cuts, LENGTH)):
        projected, rows = whole[begin:end].copy(), end - begin
        numbers = [array("q", each) for each in ([0] * rows, [0, rows, begin, 0], [0])]
        ids, spans, logit_rows = (each.buffer_info()[0] for each in numbers)
        step = Step(ids, table.buffer_info()[0], spans, logit_rows, None, rows, 1, 0, len(table))
        context.attend(model, layer, step, address(projected), address(outputs[begin:end]))
    return outputs


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
