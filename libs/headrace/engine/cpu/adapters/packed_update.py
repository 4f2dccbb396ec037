"""The update of one product by an adapter, in the kernels' layout: `Update` in `src/abi.h`."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.engine.checkpoints.adapters.adapter_parts import AdapterPart, Floats
from headrace.engine.checkpoints.packing.array_packing import stored_array
from headrace.engine.kernels.packed_weight import PANEL, PackedWeight, pack_plain
from headrace.engine.kernels.storage import Storage
from headrace.engine.kernels.structures import Update
from headrace.engine.memory.aligned import address

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PackedUpdate:
    """Modules that share inputs, with their ranks one after the other. A panel of outputs has only the ranks of modules
    that it has outputs of."""

    shrink: PackedWeight
    """Matrices A, stacked [ranks, in]."""
    scales: Floats
    """Scale of each rank [ranks]."""
    expand: NDArray[np.generic]
    """Columns of B [columns, 16], panel by panel."""
    storage: Storage
    starts: Integers
    """Place in `expand` of each panel's first column [panels + 1]."""
    ranks: Integers
    """Rank that this first column belongs to [panels]."""

    def update(self) -> Update:
        """Describes the update to the kernels. Arrays must outlive the description."""
        pointers = (address(each) for each in (self.scales, self.expand, self.starts, self.ranks))
        return Update(self.shrink.matrix(exact=True), *pointers, self.storage)

    @property
    def byte_count(self) -> int:
        """Memory that the matrices take, in bytes."""
        return self.shrink.byte_count + self.expand.nbytes


def pack_update(parts: Sequence[AdapterPart], rows: Integers, order: NDArray[np.int32] | None) -> PackedUpdate:
    """Packs the modules of one product. `rows` gives, for each output of the packed weight, the product's column, or -1
    for padding; `order` is that of the packed weight's inputs."""
    first = np.concatenate([part.first for part in parts])
    inputs = first if order is None else np.ascontiguousarray(first[:, order])
    scales = np.concatenate([np.full(len(part.first), part.scale, np.float32) for part in parts])
    ends = np.cumsum([len(part.first) for part in parts])
    panels = np.pad(rows, (0, -len(rows) % PANEL), constant_values=-1).reshape(-1, PANEL)
    low, high = np.full(len(panels), len(first)), np.zeros(len(panels), np.int64)
    second = np.zeros((parts[0].target.product_size + 1, len(first)), np.float32)
    for part, end in zip(parts, ends.tolist(), strict=True):
        columns, begin = part.target.columns, end - len(part.first)
        second[columns, begin:end] = part.second
        touches = ((panels >= columns.start) & (panels < columns.stop)).any(axis=1)
        low[touches] = np.minimum(low[touches], begin)
        high[touches] = np.maximum(high[touches], end)
    low = np.minimum(low, high)
    rank = np.arange(len(first))
    # The last row of `second` is zeros, which is what -1 picks.
    chosen = second[panels].transpose(0, 2, 1)[(rank >= low[:, None]) & (rank < high[:, None])]
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(high - low)])
    expand, storage = stored_array(chosen.reshape(-1, PANEL))
    shrink = pack_plain(*stored_array(inputs), rank)
    return PackedUpdate(shrink, scales, expand, storage, starts, low)
