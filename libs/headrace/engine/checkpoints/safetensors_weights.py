"""Reads tensors by name from the safetensors files of a model folder, memory mapped."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from headrace.engine.checkpoints.facts.scheme import QuantizationScheme
from headrace.engine.checkpoints.formats.formats import read_quantized
from headrace.engine.checkpoints.weights.loaded_weight import place, place_rounded
from headrace.engine.checkpoints.weights.quantized_matrix import Weight
from headrace.errors.tree import InvalidCheckpoint

SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"


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
        for path in _list_files(folder):
            handle = _open(path)
            self._files.update((name, (path, handle)) for name in handle.keys())  # noqa: SIM118 -- not a dict
        _check_index(folder, set(self._files))

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
            return place(quantized, dtype, device)
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

    def _find(self, name: str) -> tuple[Path, Any]:
        if name not in self._files:
            raise InvalidCheckpoint(f"tensor {name} is in none of the checkpoint's files")
        return self._files[name]


def _list_files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise InvalidCheckpoint(f"{folder} is not a folder")
    if (folder / INDEX_FILE).is_file():
        return [folder / name for name in sorted(set(_read_index(folder).values()))]
    if (folder / SINGLE_FILE).is_file():
        return [folder / SINGLE_FILE]
    if len(others := sorted(folder.glob("*.safetensors"))) == 1:
        # AutoGPTQ names its single file after bits and group size.
        return others
    if pickles := sorted(path.name for path in folder.glob("*.bin")):
        raise InvalidCheckpoint(
            f"{folder} has its weights in {pickles[0]}: pickle files can run code and are not read; "
            "convert them to safetensors"
        )
    raise InvalidCheckpoint(f"{folder} has neither {SINGLE_FILE} nor {INDEX_FILE}")


def _read_index(folder: Path) -> dict[str, str]:
    """Maps tensor names to file names. File names are untrusted, so only plain names are allowed."""
    path = folder / INDEX_FILE
    try:
        weight_map = json.loads(path.read_text(encoding="utf-8"))["weight_map"]
        files = {str(name): str(file) for name, file in weight_map.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidCheckpoint(f"{path} cannot be read: {error!r}") from error
    for file in files.values():
        if Path(file).name != file or "\\" in file or not file.endswith(".safetensors"):
            raise InvalidCheckpoint(f"{path} names {file!r}: only safetensors files of the same folder are read")
    return files


def _check_index(folder: Path, present: set[str]) -> None:
    if (folder / INDEX_FILE).is_file():
        for name, file in _read_index(folder).items():
            if name not in present:
                raise InvalidCheckpoint(f"{folder / file} lacks tensor {name}, which {INDEX_FILE} promises")


def _open(path: Path) -> Any:
    if not path.is_file():
        raise InvalidCheckpoint(f"{path} is missing")
    try:
        return safe_open(path, framework="pt")
    except (SafetensorError, OSError) as error:
        raise InvalidCheckpoint(f"{path} is not a whole safetensors file: {error}") from error
