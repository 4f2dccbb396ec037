"""Packed weights on disk, so that the second start need not pack again.

A file is a line of JSON that says what lies where, and then the numbers, each tensor on a border of 64 bytes. It is
read in one go into one block of memory. Its name is a digest of all that it depends on, so it is never out of date.
"""

import hashlib
import json
import logging
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from headrace.engine.kernels.cpu.library import VERSION
from headrace.engine.kernels.cpu.memory import allocate
from headrace.engine.kernels.cpu.packed_weight import PackedWeight
from headrace.engine.kernels.cpu.storage import Storage
from headrace.engine.models.decoder_config import DecoderConfig
from headrace.engine.models.fused_weights import FusedWeights

MAGIC = b"headrace packed weights 1\n"
ALIGNMENT = 64
MIN_BYTES = 64 << 20
"""Smaller models are packed sooner than found."""
MOST_FILES = 8
"""The least recently used ones go first."""

_log = logging.getLogger(__name__)


def packed_path(folder: Path, source: Path, config: DecoderConfig, **settings: object) -> Path:
    """Where the weights of a checkpoint belong: it depends on the checkpoint's files, by size and time of change."""
    files = [source] if source.is_file() else sorted(source.iterdir())
    found = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files if file.is_file()]
    facts = repr((VERSION, MAGIC, str(source.resolve()), found, config, sorted(settings.items())))
    return folder / f"{source.stem}-{hashlib.blake2b(facts.encode(), digest_size=16).hexdigest()}.packed"


def load_packed(path: Path) -> FusedWeights | None:
    """None when there is no such file, or it is not whole."""
    try:
        with path.open("rb") as file:
            if file.readline() != MAGIC:
                return None
            header = json.loads(file.readline())
            start = -(-file.tell() // ALIGNMENT) * ALIGNMENT
            memory = allocate(int(header["byte_count"]))
            file.seek(start)
            if file.readinto(memory.numpy().data) != len(memory):
                return None
        path.touch()
        return _restore(header, memory)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        _log.warning("packed weights cannot be read and are made anew", extra={"path": str(path), "error": repr(error)})
        return None


def save_packed(path: Path, weights: FusedWeights) -> None:
    """Small models are left out. Where it cannot be written, the next start packs again."""
    if weights.byte_count < MIN_BYTES:
        return
    draft = path.with_suffix(f".{os.getpid()}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(draft, weights)
        draft.replace(path)
        _drop_oldest(path.parent)
    except OSError as error:
        _log.warning("packed weights cannot be kept", extra={"path": str(path), "error": str(error)})
        with suppress(OSError):
            draft.unlink(missing_ok=True)


def _write(path: Path, weights: FusedWeights) -> None:
    tensors = _tensors(weights)
    places: dict[str, dict[str, Any]] = {}
    offset = 0
    for name, tensor in tensors.items():
        dtype = str(tensor.dtype).removeprefix("torch.")
        places[name] = {"offset": offset, "shape": list(tensor.shape), "dtype": dtype}
        offset += -(-tensor.numel() * tensor.element_size() // ALIGNMENT) * ALIGNMENT
    facts = {name: _facts(matrix) for name, matrix in weights.matrices.items()}
    header = {"byte_count": offset, "tensors": places, "matrices": facts, "parameter_count": weights.parameter_count}
    with path.open("wb") as file:
        file.write(MAGIC + json.dumps(header).encode() + b"\n")
        for tensor in tensors.values():
            file.write(b"\0" * (-file.tell() % ALIGNMENT))
            file.write(tensor.contiguous().view(torch.uint8).numpy().data)
        file.write(b"\0" * (-file.tell() % ALIGNMENT))
        file.flush()
        os.fsync(file.fileno())


def _tensors(weights: FusedWeights) -> dict[str, Tensor]:
    tensors = {"embedding": weights.embedding}
    tensors |= {f"vectors.{name}": vector for name, vector in weights.vectors.items()}
    for name, matrix in weights.matrices.items():
        parts = {"panels": matrix.panels, "bias": matrix.bias, "order": matrix.order}
        tensors |= {f"matrices.{name}.{part}": tensor for part, tensor in parts.items() if tensor is not None}
    return tensors


def _facts(matrix: PackedWeight) -> dict[str, int]:
    return {name: int(getattr(matrix, name)) for name in ("storage", "out_size", "in_size", "group")}


def _restore(header: dict[str, Any], memory: Tensor) -> FusedWeights:
    tensors = {name: _view(memory, **place) for name, place in header["tensors"].items()}
    weights = FusedWeights(tensors["embedding"], parameter_count=header["parameter_count"])
    for name, tensor in tensors.items():
        if name.startswith("vectors."):
            weights.vectors[name.removeprefix("vectors.")] = tensor
    for name, facts in header["matrices"].items():
        bias, order = (tensors.get(f"matrices.{name}.{part}") for part in ("bias", "order"))
        facts["storage"] = Storage(facts["storage"])
        weights.matrices[name] = PackedWeight(tensors[f"matrices.{name}.panels"], **facts, bias=bias, order=order)
    return weights


def _view(memory: Tensor, offset: int, shape: list[int], dtype: str) -> Tensor:
    kind: torch.dtype = getattr(torch, dtype)
    count = kind.itemsize
    for size in shape:
        count *= size
    return memory[offset : offset + count].view(kind).view(shape)


def _drop_oldest(folder: Path) -> None:
    files = sorted(folder.glob("*.packed"), key=lambda file: file.stat().st_mtime, reverse=True)
    for file in files[MOST_FILES:]:
        file.unlink(missing_ok=True)
