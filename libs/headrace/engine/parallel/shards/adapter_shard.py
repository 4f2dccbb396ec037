"""One process's part of an adapter."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from torch import Tensor

from headrace.engine.checkpoints.adapters.adapter_parts import AdapterPart, AdapterParts, Floats
from headrace.engine.checkpoints.adapters.target_modules import TargetModule
from headrace.engine.parallel.shards.sharded_weights import ShardedWeights


@dataclass(frozen=True, slots=True)
class AdapterShard:
    """Cuts adapters as the weights are cut: matrix B by the outputs of a module, and matrix A by its inputs, of which
    the ranks then sum what they compute."""

    weights: ShardedWeights
    layers: range
    """Layers of this rank."""
    targets: Mapping[tuple[int, str], TargetModule]
    """Modules of this rank's part of the model, by layer, counted from its first, and by name within the layer."""

    def __call__(self, parts: AdapterParts) -> AdapterParts:
        """Returns this rank's part of each module of its layers."""
        return {
            (layer - self.layers.start, product): [self._cut(part) for part in found]
            for (layer, product), found in parts.items()
            if layer in self.layers
        }

    def _cut(self, part: AdapterPart) -> AdapterPart:
        layer = part.target.layer - self.layers.start
        inputs, outputs = self.weights.inputs_of(part.module, part.target.in_size), self.weights.outputs_of(part.module)
        return replace(
            part,
            target=self.targets[layer, local_name(part.module)],
            first=_columns(part.first, inputs),
            second=part.second if outputs is None else part.second[outputs.numpy()],
        )


def local_name(module: str) -> str:
    """Returns the name of a module within its layer, such as self_attn.q_proj."""
    return ".".join(module.split(".")[3:])


def _columns(matrix: Floats, chosen: Tensor | None) -> Floats:
    return matrix if chosen is None else np.ascontiguousarray(matrix[:, chosen.numpy()])
