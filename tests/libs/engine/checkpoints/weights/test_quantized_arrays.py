"""Rows of weights that are kept as they are stored."""

import numpy as np
from gguf import GGMLQuantizationType as Kind
from tests.libs.engine.gguf_blocks import random_blocks

from headrace.engine.checkpoints.weights.quantized_arrays import BlockArrays, BlockRun, reordered_blocks
from headrace.engine.kernels.storage import Storage


def run_of(kind: Kind, row_count: int) -> BlockRun:
    generator = np.random.default_rng(row_count)
    return BlockRun((random_blocks(kind, row_count, 256, generator),), Storage[kind.name])


def test_rows_are_taken_in_any_order_across_runs_of_several_kinds() -> None:
    weight = BlockArrays.stack([BlockArrays((run_of(kind, 5),)) for kind in (Kind.Q4_K, Kind.Q6_K, Kind.Q4_K)])
    rows = np.random.default_rng(0).permutation(15)
    np.testing.assert_array_equal(reordered_blocks(weight, rows).dequantize(), weight.dequantize()[rows])


def test_rows_of_one_kind_become_one_run() -> None:
    weight = BlockArrays.stack([BlockArrays((run_of(kind, 4),)) for kind in (Kind.Q4_K, Kind.Q6_K)])
    found = reordered_blocks(weight, np.array([3, 1, 6, 7, 4, 5, 0, 2]))
    assert [(run.storage, run.row_count) for run in found.runs] == [
        (Storage.Q4_K, 2),
        (Storage.Q6_K, 4),
        (Storage.Q4_K, 2),
    ]
