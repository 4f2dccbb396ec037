"""Reads arrays by name from the safetensors files of a model folder, memory mapped, with numpy alone.

The layout: https://huggingface.co/docs/safetensors. numpy has no bfloat16, so its 16 bits become the upper half of an
fp32 number, which is the same number.
"""

import json
import struct
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from headrace.engine.checkpoints.facts.scheme import QuantizationScheme
from headrace.engine.checkpoints.files.safetensors_files import check_index, list_files
from headrace.engine.checkpoints.formats.formats import read_quantized
from headrace.engine.checkpoints.weights.quantized_arrays import Floats, QuantizedArrays
from headrace.engine.checkpoints.weights.stored_arrays import Numbers
from headrace.engine.kernels.storage import Storage
from headrace.engine.memory.mapped_file import MappedFile
from headrace.errors.tree import InvalidCheckpoint

_DTYPES: dict[str, np.dtype[Any]] = {
    "F64": np.dtype(np.float64),
    "F32": np.dtype(np.float32),
    "F16": np.dtype(np.float16),
    "BF16": np.dtype(np.uint16),
    "I64": np.dtype(np.int64),
    "I32": np.dtype(np.int32),
    "I16": np.dtype(np.int16),
    "I8": np.dtype(np.int8),
    "U8": np.dtype(np.uint8),
    "BOOL": np.dtype(np.bool_),
    "F8_E4M3": np.dtype(np.uint8),
    "F8_E8M0": np.dtype(np.uint8),
}
_STORED = {"BF16": (np.dtype(np.int16), Storage.BF16), "F16": (np.dtype(np.float16), Storage.F16)}
_FLOATS = frozenset({"F64", "F32", "F16", "BF16"})


@dataclass(frozen=True, slots=True)
class _Place:
    """Place of a tensor in its file."""

    path: Path
    file: MappedFile
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int

    def numbers(self, dtype: np.dtype[Any]) -> NDArray[Any]:
        """Views the tensor as numbers of a type. They may not be aligned."""
        return self.file.bytes[self.begin : self.end].view(dtype).reshape(self.shape)


class SafetensorsArrays:
    """The tensors of a checkpoint: one file, or shards with an index."""

    def __init__(self, folder: Path, scheme: QuantizationScheme | None = None) -> None:
        """Opens all files. Raises InvalidCheckpoint naming a file that is missing or unreadable."""
        self.scheme = scheme
        self._places: dict[str, _Place] = {}
        for path in list_files(folder):
            self._places |= _places(path)
        check_index(folder, set(self._places))

    def __contains__(self, name: str) -> bool:
        return name in self._places

    def values(self, name: str, shape: tuple[int, ...]) -> Floats:
        """Reads one tensor as fp32. Raises InvalidCheckpoint if it is missing or misshapen."""
        place = self._find(name)
        if place.shape != shape:
            raise InvalidCheckpoint(
                f"{place.path}: tensor {name} has shape {place.shape}, but config.json implies {shape}"
            )
        if place.dtype not in _FLOATS:
            raise InvalidCheckpoint(f"{place.path}: tensor {name} holds {place.dtype}, not floating-point numbers")
        return self.array(name).astype(np.float32, copy=False)

    def stored(self, name: str, shape: tuple[int, ...]) -> tuple[Numbers, Storage]:
        """Reads one tensor: bfloat16 (as int16) and fp16 as the file has them, without a copy, and others as fp32.
        Raises InvalidCheckpoint if it is missing or misshapen."""
        place = self._find(name)
        if place.shape != shape or place.dtype not in _STORED:
            return self.values(name, shape), Storage.F32
        dtype, storage = _STORED[place.dtype]
        return np.require(place.numbers(dtype), requirements=["A", "C"]), storage

    def stored_entry(self, name: str, index: int) -> tuple[Numbers, Storage]:
        """Reads one entry of a tensor along its first dimension, see `stored`."""
        place = self._entry(name, index)
        if place.dtype not in _STORED:
            return self.entry(name, index).astype(np.float32, copy=False), Storage.F32
        dtype, storage = _STORED[place.dtype]
        return place.numbers(dtype), storage

    def forget(self) -> None:
        """Gives back the memory of the files' pages. Arrays that lie in them stay valid: they are read again."""
        for file in {place.file for place in self._places.values()}:
            file.forget(file.bytes)

    def quantized(self, name: str, shape: tuple[int, int]) -> QuantizedArrays | None:
        """Reads the weight [out, in] of module `name`; None if the checkpoint has it as plain numbers."""
        return read_quantized(self, name, *shape, self.scheme)

    def array(self, name: str) -> NDArray[Any]:
        """Reads one tensor for the readers of formats, see TensorSource."""
        return _values(self._find(name), name)

    def entry(self, name: str, index: int) -> NDArray[Any]:
        """Reads one entry of a tensor along its first dimension, see EntrySource."""
        return _values(self._entry(name, index), name)

    def _entry(self, name: str, index: int) -> "_Place":
        place = self._find(name)
        if not place.shape or index >= place.shape[0]:
            raise InvalidCheckpoint(f"{place.path}: tensor {name} has shape {place.shape}, and so no entry {index}")
        size = (place.end - place.begin) // place.shape[0]
        begin = place.begin + index * size
        return replace(place, shape=place.shape[1:], begin=begin, end=begin + size)

    def _find(self, name: str) -> _Place:
        if name not in self._places:
            raise InvalidCheckpoint(f"tensor {name} is in none of the checkpoint's files")
        return self._places[name]


def _values(place: _Place, name: str) -> NDArray[Any]:
    """Reads a tensor, or a part of one: floating-point numbers of 16 bits as fp32. Raises InvalidCheckpoint."""
    if place.dtype not in _DTYPES:
        raise InvalidCheckpoint(f"{place.path}: tensor {name} holds {place.dtype}, which is not read")
    stored = np.require(place.numbers(_DTYPES[place.dtype]), requirements="A")
    if place.dtype == "BF16":
        return (stored.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return stored.astype(np.float32) if place.dtype == "F16" else stored


def _places(path: Path) -> dict[str, _Place]:
    """Finds the tensors of one file. The safetensors library has checked its header by then."""
    if not path.is_file():
        raise InvalidCheckpoint(f"{path} is missing")
    try:
        with safe_open(path, framework="numpy"), path.open("rb") as file:
            (size,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(size))
            contents = MappedFile(file)
    except (SafetensorError, OSError, ValueError) as error:
        raise InvalidCheckpoint(f"{path} is not a whole safetensors file: {error}") from error
    base = 8 + size
    return {
        name: _Place(
            path, contents, entry["dtype"], tuple(entry["shape"]), *(base + end for end in entry["data_offsets"])
        )
        for name, entry in header.items()
        if name != "__metadata__"
    }
