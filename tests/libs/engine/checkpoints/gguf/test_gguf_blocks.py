"""Codes, scales and offsets of GGUF's blocks stand for the numbers that the `gguf` package reads, to the last bit."""

import gguf
import numpy as np
import pytest
from tests.libs.engine.gguf_files import Kind, random_blocks

from headrace.engine.checkpoints.gguf.gguf_blocks import block_codes
from headrace.engine.checkpoints.weights.quantized_arrays import BlockRun
from headrace.engine.kernels.storage import BLOCKS, Storage


@pytest.mark.parametrize("storage", BLOCKS)
def test_each_kind_of_block_is_taken_apart_exactly(storage: Storage) -> None:
    kind = Kind[storage.name]
    parts = tuple(random_blocks(kind, rows, 512, seed=rows) for rows in (3, 5))
    found = block_codes(BlockRun(parts, storage))
    expected = gguf.dequantize(np.concatenate(parts), kind)
    assert np.array_equal(found.dequantize(), expected)
    assert found.codes.max() < 1 << found.bits
    assert found.bits == (4 if "4" in storage.name else 8)
    assert found.group_size == (16 if storage is Storage.Q6_K else 32)
