"""Rows of a weight are those of the whole weight, in every format and across all seams."""

from dataclasses import replace

import numpy as np
import pytest
from gguf import GGMLQuantizationType as Kind
from tests.libs.engine.gguf_files import random_blocks

from headrace.engine.checkpoints.weights.quantized_arrays import (
    ArrayWeight,
    BlockArrays,
    BlockRun,
    QuantizedArrays,
    plain_array,
)
from headrace.engine.checkpoints.weights.stored_arrays import StoredArrays
from headrace.engine.cpu.weights.weight_rows import weight_rows
from headrace.engine.kernels.storage import Storage

IN = 256


def stored(storage: Storage, bits: int | None = None) -> StoredArrays:
    numbers = np.random.default_rng(0).standard_normal((24, IN), np.float32)
    if storage is Storage.BF16:
        kept = (numbers.view(np.uint32) >> np.uint32(16)).astype(np.uint16).view(np.int16)
        return StoredArrays((kept[:10], kept[10:17], kept[17:]), storage, bits, 64)
    return StoredArrays((numbers[:10], numbers[10:17], numbers[17:]), storage, bits, 64)


def quantized() -> QuantizedArrays:
    generator = np.random.default_rng(0)
    codes, zeros = (generator.integers(0, 16, (24, count), np.uint8) for count in (IN, 4))
    order = generator.permutation(IN)
    return QuantizedArrays(codes, generator.random((24, 4), np.float32), zeros, 4, 64, order)


def blocks() -> BlockArrays:
    parts = [
        random_blocks(kind, count, IN, seed=1) for kind, count in ((Kind.Q4_K, 10), (Kind.Q4_K, 7), (Kind.Q6_K, 7))
    ]
    return BlockArrays((BlockRun((parts[0], parts[1]), Storage.Q4_K), BlockRun((parts[2],), Storage.Q6_K)))


WEIGHTS: dict[str, ArrayWeight] = {
    "fp32": stored(Storage.F32),
    "bf16": stored(Storage.BF16),
    "rounded later": stored(Storage.BF16, bits=4),
    "codes": quantized(),
    "codes in order": replace(quantized(), input_order=None),
    "blocks": blocks(),
}


@pytest.mark.parametrize("name", WEIGHTS)
@pytest.mark.parametrize(("first", "last"), [(0, 24), (3, 5), (8, 12), (10, 17), (9, 20), (17, 24), (16, 18)])
def test_rows_are_those_of_the_whole(name: str, first: int, last: int) -> None:
    weight = WEIGHTS[name]
    found = weight_rows(weight, first, last)
    assert found.dtype == np.float32
    assert np.array_equal(found, plain_array(weight)[first:last])
