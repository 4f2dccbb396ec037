"""The adapters of one model, all loaded."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headrace.engine.checkpoints.adapters.adapter_parts import read_parts
from headrace.engine.checkpoints.adapters.target_modules import Product
from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.cpu.adapters.packed_update import Integers, PackedUpdate, pack_update
from headrace.engine.cpu.weights.packed_weights import PackedWeights, gate_up_rows
from headrace.engine.kernels.structures import Update

PLACES = ("qkv", "qkv.1", "qkv.2", "output", "gate_up", "up", "down")
"""Matrices of a layer that adapters may update, in the order of `Product` in `src/abi.h`."""


class PackedAdapters:
    """Finds the adapter of each span, and describes all of them to the kernels."""

    def __init__(self, folders: Mapping[str, Path], model: DecoderConfig, weights: PackedWeights) -> None:
        """Reads the folder of each adapter by name. Raises InvalidCheckpoint or Unsupported."""
        self._numbers = {name: number for number, name in enumerate(folders)}
        self._packed: list[PackedUpdate] = []
        self.updates = (Update * (len(folders) * model.layer_count * len(PLACES)))()
        """Updates [adapters, layers, products]; without rows where there is none."""
        for number, folder in enumerate(folders.values()):
            for (layer, product), parts in read_parts(folder, model).items():
                for place, rows in _matrices(weights, layer, product, model.intermediate_size):
                    packed = pack_update(parts, rows, weights.matrices[f"{layer}.{place}"].order)
                    at = (number * model.layer_count + layer) * len(PLACES) + PLACES.index(place)
                    self.updates[at] = packed.update()
                    self._packed.append(packed)

    @property
    def count(self) -> int:
        return len(self._numbers)

    @property
    def byte_count(self) -> int:
        """Memory that the adapters take, in bytes."""
        return sum(packed.byte_count for packed in self._packed)

    def numbers_of(self, names: Sequence[str]) -> NDArray[np.int64]:
        """Returns the number of each adapter, or -1 for an empty name."""
        return np.array([self._numbers[name] if name else -1 for name in names], np.int64)


def _matrices(weights: PackedWeights, layer: int, product: Product, inner: int) -> Iterator[tuple[str, Integers]]:
    """Yields the matrices that make up a product, and the product's column of each of their outputs."""
    if product == "gate_up":
        if f"{layer}.up" in weights.matrices:
            yield "gate_up", np.arange(inner)
            yield "up", np.arange(inner, 2 * inner)
        else:
            yield "gate_up", gate_up_rows(inner)
        return
    first = 0
    for place in (product, f"{product}.1", f"{product}.2"):
        matrix = weights.matrices.get(f"{layer}.{place}")
        if matrix is not None:
            yield place, np.arange(first, first + matrix.out_size)
            first += matrix.out_size
