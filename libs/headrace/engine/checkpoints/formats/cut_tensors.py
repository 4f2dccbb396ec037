"""The tensors of a part of a module, as if the part were the whole: readers of formats need not know of it."""

from collections.abc import Sequence
from typing import Any, Protocol

from numpy.typing import NDArray

from headrace.engine.checkpoints.facts.scheme import QuantizationScheme
from headrace.engine.checkpoints.formats.weight_cut import AXES, WeightCut
from headrace.engine.checkpoints.weights.tensor_source import TensorSource

Runs = Sequence[Sequence[range]]
"""Runs of places along each dimension of a tensor."""


class CutSource(TensorSource, Protocol):
    """Tensors of which parts can be read."""

    def shape(self, name: str) -> tuple[int, ...]:
        """Returns the shape of a tensor without reading it."""
        ...

    def array_part(self, name: str, runs: Runs) -> NDArray[Any]:
        """Reads some places of a tensor along each dimension, see TensorSource."""
        ...


class CutTensors:
    """Implements the Protocol of `tensor_source.py` for a part of one module."""

    def __init__(self, source: CutSource, module: str, cut: WeightCut, scheme: QuantizationScheme) -> None:
        self._source = source
        self._cut = cut
        self._group_size = scheme.group_size or cut.whole[1]
        self._shape_name = f"{module}.weight_shape"
        self._order_name = f"{module}.g_idx"
        self._runs: dict[str, Runs | None] = {}
        """Runs of each tensor that the module has. None: they do not lie apart."""
        for kind, axes in AXES[scheme.method].items():
            if (name := f"{module}.{kind}") in source:
                sizes = source.shape(name)
                found = [
                    cut.stored(axis, size, scheme.bits, self._group_size, scheme.block_rows)
                    for axis, size in zip(axes, sizes, strict=False)
                ]
                runs = [each for each in found if each is not None]
                self._runs[name] = runs if len(runs) == len(axes) == len(sizes) else None

    def can_read(self) -> bool:
        """Whether the part lies apart from the rest in every tensor, and nothing says that a group's inputs do not."""
        if any(runs is None for runs in self._runs.values()):
            return False
        if self._cut.has_all_inputs or self._order_name not in self._runs:
            return True
        groups = self.array(self._order_name)
        return bool((groups == [place // self._group_size for place in range(len(groups))]).all())

    def __contains__(self, name: str) -> bool:
        return name in self._source

    def array(self, name: str) -> NDArray[Any]:
        """Reads the part of a tensor, see TensorSource."""
        runs = self._runs.get(name)
        if runs is None:
            whole = self._source.array(name)
            return whole if name != self._shape_name else whole - self._cut.whole + self._cut.shape
        part = self._source.array_part(name, runs)
        first_group = self._cut.inputs.start // self._group_size
        return part - part.dtype.type(first_group) if name == self._order_name else part
