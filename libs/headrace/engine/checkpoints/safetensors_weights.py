"""Reads tensors by name from the safetensors files of a model folder, memory mapped."""

from itertools import product
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from torch import Tensor

from headrace.engine.checkpoints.facts.scheme import QuantizationScheme
from headrace.engine.checkpoints.files.safetensors_files import check_index, list_files
from headrace.engine.checkpoints.formats.cut_tensors import Runs
from headrace.engine.checkpoints.formats.formats import read_input_order, read_part, read_quantized, scheme_of
from headrace.engine.checkpoints.formats.weight_cut import WeightCut
from headrace.engine.checkpoints.packing.loaded_weight import place, place_rounded
from headrace.engine.checkpoints.weights.quantized_arrays import QuantizedArrays
from headrace.engine.checkpoints.weights.quantized_matrix import QuantizedMatrix, Weight
from headrace.engine.checkpoints.weights.weight_rounding import GROUP_SIZES
from headrace.errors.tree import InvalidCheckpoint


class Weights:
    """The tensors of a checkpoint: one file, or shards with an index."""

    def __init__(
        self, folder: Path, scheme: QuantizationScheme | None = None, round_to_bits: int | None = None
    ) -> None:
        """Opens all files. Raises InvalidCheckpoint naming a file that is missing or unreadable."""
        self.scheme = scheme
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
        quantized = read_quantized(self, name, *shape, self.scheme)
        if quantized is not None:
            return self.placed(name, quantized, dtype, device)
        weight = self.read(f"{name}.weight", shape, dtype, torch.device("cpu"))
        return self.placed_numbers(name, weight, dtype, device)

    def part(self, name: str, cut: WeightCut, dtype: torch.dtype, device: torch.device) -> Weight | None:
        """Reads some outputs and inputs of the weight of module `name`, and of its tensors no more. Returns None if the
        whole must be read for it, which also tells what is wrong with it. Raises InvalidCheckpoint."""
        scheme = scheme_of(self, name, self.scheme)
        if scheme is not None:
            if scheme.is_float and not _keeps_groups(cut, self._round_to_bits):
                return None
            arrays = read_part(self, name, cut, scheme)
            return None if arrays is None else self.placed(name, arrays, dtype, device)
        stored = f"{name}.weight"
        if self.shape(stored) != cut.whole or not _keeps_groups(cut, self._round_to_bits):
            return None
        numbers = self.raw_part(stored, (cut.outputs, (cut.inputs,)))
        if not numbers.is_floating_point():
            return None
        return self.placed_numbers(name, numbers.to(dtype), dtype, device)

    def is_in_order(self, name: str, in_size: int) -> bool:
        """Whether the groups of module `name` are of consecutive inputs. Reads no weight. Raises InvalidCheckpoint."""
        scheme = scheme_of(self, name, self.scheme)
        return scheme is None or read_input_order(self, name, in_size, scheme) is None

    def shape(self, name: str) -> tuple[int, ...]:
        """Returns the shape of a tensor without reading it. Raises InvalidCheckpoint if it is missing."""
        return tuple(self._find(name)[1].get_slice(name).get_shape())

    def raw_part(self, name: str, runs: Runs) -> Tensor:
        """Reads some places of a tensor along each dimension, unconverted. Raises InvalidCheckpoint, see `raw`."""
        path, handle = self._find(name)
        try:
            stored = handle.get_slice(name)
            parts = [stored[tuple(slice(run.start, run.stop) for run in each)] for each in product(*runs)]
        except SafetensorError as error:
            raise InvalidCheckpoint(f"{path}: tensor {name} cannot be read: {error}") from error
        # Products vary the last dimension first. Only one dimension has several runs.
        several = next((dimension for dimension, each in enumerate(runs) if len(each) > 1), 0)
        return torch.cat(parts, several) if len(parts) > 1 else parts[0]

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
        return _array(self.raw(name))

    def entry(self, name: str, index: int) -> NDArray[Any]:
        """Reads one entry of a tensor along its first dimension, see EntrySource."""
        path, handle = self._find(name)
        try:
            return _array(handle.get_slice(name)[index])
        except (SafetensorError, IndexError) as error:
            raise InvalidCheckpoint(f"{path}: tensor {name} has no entry {index}: {error}") from error

    def array_part(self, name: str, runs: Runs) -> NDArray[Any]:
        """Reads some places of a tensor along each dimension, see CutSource."""
        return _array(self.raw_part(name, runs))

    def placed(self, name: str, arrays: QuantizedArrays, dtype: torch.dtype, device: torch.device) -> Weight:
        """Returns a quantized weight as the device's products need it. Floating-point codes are rounded at load if
        plain numbers are."""
        if arrays.is_float and self._round_to_bits is not None:
            return self.placed_numbers(name, torch.from_numpy(arrays.dequantize()), dtype, device)
        return place(QuantizedMatrix.of(arrays), dtype, device)

    def placed_numbers(self, name: str, numbers: Tensor, dtype: torch.dtype, device: torch.device) -> Weight:
        """Returns a plain weight as the device's products need it, rounded if plain numbers are."""
        return place_rounded(name, numbers, self._round_to_bits, dtype, device)

    def _find(self, name: str) -> tuple[Path, Any]:
        if name not in self._files:
            raise InvalidCheckpoint(f"tensor {name} is in none of the checkpoint's files")
        return self._files[name]


def _array(tensor: Tensor) -> NDArray[Any]:
    if tensor.dtype in (torch.float8_e4m3fn, torch.float8_e8m0fnu):
        return tensor.view(torch.uint8).numpy()
    return (tensor.float() if tensor.dtype in (torch.bfloat16, torch.float16) else tensor).numpy()


def _keeps_groups(cut: WeightCut, bits: int | None) -> bool:
    """Whether a part that is rounded at load has the groups that the whole would have."""
    if bits is None or cut.has_all_inputs:
        return True
    sizes = [next((size for size in GROUP_SIZES if count % size == 0), None) for count in (cut.whole[1], cut.shape[1])]
    return sizes[0] is not None and sizes[0] == sizes[1] and cut.inputs.start % sizes[0] == 0


def _open(path: Path) -> Any:
    if not path.is_file():
        raise InvalidCheckpoint(f"{path} is missing")
    try:
        return safe_open(path, framework="pt")
    except (SafetensorError, OSError) as error:
        raise InvalidCheckpoint(f"{path} is not a whole safetensors file: {error}") from error
