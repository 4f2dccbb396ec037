"""Reads tensors by name from the safetensors files of a model folder, memory mapped."""

from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from torch import Tensor

from headrace.engine.checkpoints.facts.scheme import QuantizationScheme
from headrace.engine.checkpoints.files.safetensors_files import check_index, list_files
from headrace.engine.checkpoints.formats.formats import read_quantized
from headrace.engine.checkpoints.weights.loaded_weight import place, place_rounded
from headrace.engine.checkpoints.weights.quantized_matrix import QuantizedMatrix, Weight
from headrace.errors.tree import InvalidCheckpoint


class Weights:
    """The tensors of a checkpoint: one file, or shards with an index."""

    def __init__(
        self, folder: Path, scheme: QuantizationScheme | None = None, round_to_bits: int | None = None
    ) -> None:
        """Opens all files. Raises InvalidCheckpoint naming a file that is missing or unreadable."""
        self._scheme = scheme
        self._round_to_bits = round_to_bits
        self._files: dict[str, tuple[Path, Any]] = {}
        """Path and open handle of the file that holds each tensor, by tensor name."""
        for path in list_files(folder):
            handle = _open(path)
            self._files.update((name, (path, handle)) for name in handle.keys())  # noqa: SIM118 -- not a dict
        check_index(folder, set(self._files))

    def __contains__(self, name: str) -> bool:
        return name in self._files

    def read(self, name: str, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
        """Reads one tensor and converts it. Raises InvalidCheckpoint if it is missing or misshapen."""
        path, handle = self._find(name)
        found = tuple(handle.get_slice(name).get_shape())
        if found != shape:
            raise InvalidCheckpoint(f"{path}: tensor {name} has shape {found}, but config.json implies {shape}")
        tensor = self.raw(name)
        if not tensor.is_floating_point():
            raise InvalidCheckpoint(f"{path}: tensor {name} holds {tensor.dtype}, not floating-point numbers")
        return tensor.to(device=device, dtype=dtype)

    def matrix(self, name: str, shape: tuple[int, int], dtype: torch.dtype, device: torch.device) -> Weight:
        """Reads the weight [out, in] of module `name`: see WeightSource."""
        quantized = read_quantized(self, name, *shape, self._scheme)
        if quantized is not None:
            return place(QuantizedMatrix.of(quantized), dtype, device)
        weight = self.read(f"{name}.weight", shape, dtype, torch.device("cpu"))
        return place_rounded(name, weight, self._round_to_bits, dtype, device)

    def raw(self, name: str) -> Tensor:
        """Reads one tensor unconverted. Raises InvalidCheckpoint if it is missing or unreadable."""
        path, handle = self._find(name)
        try:
            tensor: Tensor = handle.get_tensor(name)
        except SafetensorError as error:
            raise InvalidCheckpoint(f"{path}: tensor {name} cannot be read: {error}") from error
        return tensor

    def array(self, name: str) -> NDArray[Any]:
        """Reads one tensor for the readers of formats, see TensorSource."""
        tensor = self.raw(name)
        return (tensor.float() if tensor.dtype in (torch.bfloat16, torch.float16) else tensor).numpy()

    def _find(self, name: str) -> tuple[Path, Any]:
        if name not in self._files:
            raise InvalidCheckpoint(f"tensor {name} is in none of the checkpoint's files")
        return self._files[name]


def _open(path: Path) -> Any:
    if not path.is_file():
        raise InvalidCheckpoint(f"{path} is missing")
    try:
        return safe_open(path, framework="pt")
    except (SafetensorError, OSError) as error:
        raise InvalidCheckpoint(f"{path} is not a whole safetensors file: {error}") from error
