"""Some rows of a weight as the numbers that they stand for, whatever the format of the weight."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from headrace.engine.checkpoints.weights.quantized_arrays import (
    ArrayWeight,
    BlockArrays,
    BlockRun,
    Floats,
    QuantizedArrays,
)
from headrace.engine.checkpoints.weights.stored_arrays import StoredArrays


def weight_rows(weight: ArrayWeight, first: int, last: int) -> Floats:
    """Returns the rows from `first` to `last` in fp32 [last - first, in]. Plain weights that are to be rounded while
    they are packed are not rounded."""
    if isinstance(weight, StoredArrays):
        return StoredArrays(tuple(_cut(weight.parts, first, last)), weight.storage).values()
    if isinstance(weight, QuantizedArrays):
        rows = slice(first, last)
        return replace(
            weight, codes=weight.codes[rows], scales=weight.scales[rows], zeros=weight.zeros[rows]
        ).dequantize()
    return BlockArrays(tuple(_cut_runs(weight.runs, first, last))).dequantize()


def _cut_runs(runs: Sequence[BlockRun], first: int, last: int) -> Iterator[BlockRun]:
    begin = 0
    for run in runs:
        if parts := tuple(_cut(run.parts, first - begin, last - begin)):
            yield BlockRun(parts, run.storage)
        begin += run.row_count


def _cut(parts: Sequence[NDArray[Any]], first: int, last: int) -> Iterator[NDArray[Any]]:
    """Yields what the parts, one after the other, have of the rows from `first` to `last`."""
    begin = 0
    for part in parts:
        cut = part[max(first - begin, 0) : max(last - begin, 0)]
        if len(cut):
            yield cut
        begin += len(part)
