"""Source of a model's tensors, whatever the file format."""

from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from headrace.engine.checkpoints.facts.scheme import QuantizationScheme
from headrace.engine.checkpoints.files.gguf_path import is_gguf
from headrace.engine.checkpoints.gguf.gguf_file import GgufFile
from headrace.engine.checkpoints.layout.stored_names import USUAL_NAMING, ModuleNaming, StoredNames
from headrace.engine.checkpoints.named_weights import NamedWeights
from headrace.engine.checkpoints.safetensors_weights import Weights
from headrace.engine.checkpoints.stacked.stacked_weights import StackedWeights
from headrace.engine.checkpoints.weights.quantized_matrix import Weight


class WeightSource(Protocol):
    """Tensors by their names in Hugging Face checkpoints. Raises InvalidCheckpoint naming the tensor."""

    def read(self, name: str, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
        """Reads one tensor and converts it."""
        ...

    def matrix(self, name: str, shape: tuple[int, int], dtype: torch.dtype, device: torch.device) -> Weight:
        """Reads the weight [out, in] of module `name`. Converts it unless a product can use it quantized."""
        ...


def open_weights(
    source: Path,
    scheme: QuantizationScheme | None,
    round_to_bits: int | None,
    *,
    naming: ModuleNaming = USUAL_NAMING,
    keeps_blocks: bool = False,
) -> WeightSource:
    """Opens a model folder or a GGUF file. `round_to_bits` quantizes plain matrices at load. A folder may have
    other names for tensors, see `naming`. `keeps_blocks` leaves a file's blocks as they are, for the CPU kernels."""
    if is_gguf(source):
        return GgufFile(source, round_to_bits, keeps_blocks=keeps_blocks)
    weights = Weights(source, scheme, round_to_bits)
    names = StoredNames.of(naming, weights)
    stacked = names.stacked(naming, weights)
    own = weights if stacked is None else StackedWeights(weights, stacked)
    return own if names.are_usual else NamedWeights(own, names)
