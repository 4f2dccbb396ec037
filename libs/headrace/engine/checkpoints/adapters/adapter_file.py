"""The tensors of an adapter, in the single file that PEFT writes."""

import json
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from headrace.engine.checkpoints.adapters.lora_config import WEIGHTS_FILE
from headrace.errors.tree import InvalidCheckpoint, Unsupported

_UNKNOWN = "only lora_A and lora_B of linear modules are supported"
_DTYPES = frozenset({"F32", "BF16", "F16"})
_NAME = re.compile(r"base_model\.model\.(?P<module>.+)\.lora_(?P<side>[AB])\.weight")
_REASONS = {
    "lora_magnitude_vector": "it belongs to DoRA, which is not supported",
    "lora_embedding_": "adapters of embeddings are not supported",
    "lora_B.bias": "adapters with a bias are not supported",
    "modules_to_save": "modules that were trained whole (modules_to_save) are not supported",
    "original_module": "modules that were trained whole (modules_to_save) are not supported",
}


class AdapterFile:
    """Opens the file and lists the modules that have a pair of matrices."""

    def __init__(self, folder: Path) -> None:
        """Raises InvalidCheckpoint if the file is missing or broken, Unsupported for tensors other than LoRA pairs."""
        self._path = folder / WEIGHTS_FILE
        self._handle = _open(self._path)
        self._names: dict[tuple[str, str], str] = {}
        for name in self._handle.keys():  # noqa: SIM118 -- not a dict
            self._names[_parse(self._path, name)] = name

    @property
    def modules(self) -> list[str]:
        """Lists the adapted modules by base model name. Raises InvalidCheckpoint if half of a pair is missing."""
        for module, side in self._names:
            other = "B" if side == "A" else "A"
            if (module, other) not in self._names:
                raise InvalidCheckpoint(f"{self._path} has lora_{side} of {module}, but not lora_{other}")
        return sorted({module for module, _ in self._names})

    def read(self, module: str, side: str, shape: tuple[int, int]) -> NDArray[np.float32]:
        """Reads one matrix in fp32. Raises InvalidCheckpoint naming the tensor if it has another shape or is not
        finite, Unsupported for another data type."""
        name = self._names[module, side]
        header = self._handle.get_slice(name)
        found = tuple(header.get_shape())
        if found != shape:
            raise InvalidCheckpoint(
                f"{self._path}: tensor {name} has shape {found}, but the base model and the rank imply {shape}"
            )
        if header.get_dtype() not in _DTYPES:
            raise Unsupported(
                f"{self._path}: tensor {name} holds {header.get_dtype()}; only {', '.join(sorted(_DTYPES))} are read"
            )
        tensor = self._load_upper_halves(name, shape) if header.get_dtype() == "BF16" else self._load(name)
        if not np.isfinite(tensor).all():
            raise InvalidCheckpoint(f"{self._path}: tensor {name} has a NaN or an infinity")
        return tensor

    def _load(self, name: str) -> NDArray[np.float32]:
        try:
            stored: NDArray[Any] = self._handle.get_tensor(name)
        except SafetensorError as error:
            raise InvalidCheckpoint(f"{self._path}: tensor {name} cannot be read: {error}") from error
        return stored.astype(np.float32)

    def _load_upper_halves(self, name: str, shape: tuple[int, int]) -> NDArray[np.float32]:
        """Reads bfloat16, which numpy does not have: the upper half of an fp32 number, which is the same number."""
        with self._path.open("rb") as file:
            (size,) = struct.unpack("<Q", file.read(8))
            begin, _ = json.loads(file.read(size))[name]["data_offsets"]
            file.seek(8 + size + begin)
            stored = np.frombuffer(file.read(2 * shape[0] * shape[1]), np.uint16)
        return (stored.astype(np.uint32) << np.uint32(16)).view(np.float32).reshape(shape)


def _open(path: Path) -> Any:
    folder = path.parent
    if not path.is_file():
        if pickles := sorted(other.name for other in folder.glob("*.bin")):
            raise InvalidCheckpoint(
                f"{folder} has its weights in {pickles[0]}: pickle files can run code and are not read; "
                "save the adapter with safe_serialization"
            )
        raise InvalidCheckpoint(f"{path} is missing: an adapter's folder needs it")
    try:
        return safe_open(path, framework="numpy")
    except (SafetensorError, OSError) as error:
        raise InvalidCheckpoint(f"{path} is not a whole safetensors file: {error}") from error


def _parse(path: Path, name: str) -> tuple[str, str]:
    """Returns the module that a tensor belongs to, and its side of the product: A or B."""
    match = _NAME.fullmatch(name)
    if match is None:
        reason = next((reason for part, reason in _REASONS.items() if part in name), _UNKNOWN)
        raise Unsupported(f"{path}: tensor {name} cannot be used: {reason}")
    return match["module"], match["side"]
