"""Tensors of single experts, taken from those of all experts of a layer."""

import re
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from headrace.engine.checkpoints.facts.expert_config import StackedExperts
from headrace.engine.checkpoints.facts.scheme import QuantizationScheme
from headrace.engine.checkpoints.weights.tensor_source import TensorSource

_EXPERT = re.compile(r"(.+)\.experts\.(\d+)\.(gate|up|down)_proj\.(weight|bias|weight_packed|weight_scale)")
_ENDINGS = {"weight": "", "bias": "_bias", "weight_packed": "_blocks", "weight_scale": "_scales"}
"""Endings of the names of stacked tensors, by what an expert's own is called."""

Numbers = NDArray[Any]


class EntrySource(TensorSource, Protocol):
    """Tensors of which single entries can be read."""

    scheme: QuantizationScheme | None

    def entry(self, name: str, index: int) -> Numbers:
        """Reads one entry along the first dimension, see `array`. Raises InvalidCheckpoint."""
        ...


@dataclass(frozen=True, slots=True)
class ExpertTensor:
    """Place of one expert's tensor."""

    stacked: str
    """Name of the tensor of all experts."""
    expert: int
    projection: str
    kind: str

    @classmethod
    def of(cls, name: str, layout: StackedExperts) -> Self | None:
        """Finds the place of a tensor. None: it is no expert's."""
        found = _EXPERT.fullmatch(name)
        if found is None:
            return None
        block, expert, projection, kind = found.groups()
        stem = layout.down if projection == "down" else layout.gate_up
        return cls(f"{block}.{stem}{_ENDINGS[kind]}", int(expert), projection, kind)

    def cut(self, entry: Numbers, layout: StackedExperts) -> Numbers:
        """Takes the tensor from the entry of its expert: [out, in], or [out] of a bias."""
        if self.kind == "weight" and layout.is_transposed:
            entry = entry.T
        if self.projection != "down":
            half, place = len(entry) // 2, int(self.projection == "up")
            entry = entry[place::2] if layout.is_interleaved else entry[half * place : half * (place + 1)]
        whole = np.ascontiguousarray(entry)
        return whole.reshape(len(whole), -1) if self.kind == "weight_packed" else whole


@dataclass(frozen=True, slots=True)
class StackedTensors:
    """Tensors under the names that each expert's own would have. See TensorSource."""

    source: EntrySource
    layout: StackedExperts

    def __contains__(self, name: str) -> bool:
        place = ExpertTensor.of(name, self.layout)
        return (name if place is None else place.stacked) in self.source

    def array(self, name: str) -> Numbers:
        place = ExpertTensor.of(name, self.layout)
        if place is None:
            return self.source.array(name)
        return place.cut(self.source.entry(place.stacked, place.expert), self.layout)

    def has_expert(self, name: str) -> bool:
        """Whether `name` is a tensor of an expert."""
        return ExpertTensor.of(name, self.layout) is not None
