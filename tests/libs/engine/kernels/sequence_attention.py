"""Attention of all tokens of one sequence, straight through the kernels."""

from array import array
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from headrace.engine.kernels.context import Floats, KernelContext
from headrace.engine.kernels.kv_arena import KvArena, KvShape
from headrace.engine.kernels.library import Instructions
from headrace.engine.kernels.storage import Storage
from headrace.engine.kernels.structures import Layer, Model, Step
from headrace.engine.memory.aligned import address


@dataclass(frozen=True, slots=True)
class SequenceShape:
    """Sizes of a sequence and of its heads."""

    length: int = 1100
    """Usually more than two segments, and no whole number of them."""
    head_count: int = 6
    kv_head_count: int = 2
    head_size: int = 48
    block_size: int = 16


USUAL = SequenceShape()


def inputs(shape: SequenceShape = USUAL) -> Floats:
    """Queries, keys and values [tokens, heads, head]. Scores differ enough for segments to have different maxima."""
    heads = shape.head_count + 2 * shape.kv_head_count
    size = (shape.length, heads, shape.head_size)
    numbers = np.random.default_rng(1).standard_normal(size).astype(np.float32)
    numbers[shape.length // 2, shape.head_count : shape.head_count + shape.kv_head_count] *= 3
    return numbers


def attend(
    kind: Storage,
    cuts: tuple[int, ...],
    *,
    threads: int,
    window: int = 0,
    soft_cap: float = 0.0,
    instructions: Instructions | None = None,
    whole: Floats | None = None,
    factors: Floats | None = None,
    shape: SequenceShape = USUAL,
) -> NDArray[np.float32]:
    """Attends from all tokens of a sequence, in chunks that end at `cuts`. `whole` replaces `inputs`. Returns [tokens,
    heads, head]."""
    blocks = shape.length // shape.block_size + 1
    held = KvShape(1, shape.kv_head_count, shape.head_size, shape.block_size, kind)
    arena, context = KvArena(held, blocks), KernelContext(threads, instructions)
    places = arena.places(0)
    layer = Layer(
        window=window, keys=places.keys, values=places.values, key_scales=places.key_scales,
        value_scales=places.value_scales, key_factors=None if factors is None else address(factors),
    )  # fmt: skip
    model = Model(
        head_count=shape.head_count, kv_head_count=shape.kv_head_count, head_size=shape.head_size,
        block_size=shape.block_size, kv_storage=kind, block_bytes=held.block_bytes, block_count=blocks,
        scale=shape.head_size**-0.5, soft_cap=soft_cap, vocabulary=1,
    )  # fmt: skip
    table, whole = array("q", reversed(range(blocks))), inputs(shape) if whole is None else whole
    outputs = np.empty((shape.length, shape.head_count, shape.head_size), np.float32)
    for begin, end in pairwise((0, *cuts, shape.length)):
        projected, rows = whole[begin:end].copy(), end - begin
        numbers = [array("q", each) for each in ([0] * rows, [0, rows, begin, 0], [0])]
        ids, spans, logit_rows = (each.buffer_info()[0] for each in numbers)
        step = Step(ids, table.buffer_info()[0], spans, logit_rows, None, rows, 1, 0, len(table))
        context.attend(model, layer, step, address(projected), address(outputs[begin:end]))
    return outputs
