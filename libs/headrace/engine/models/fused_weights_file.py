"""Packed weights on disk, so that the second start need not pack again.

A file is a line of JSON that says what lies where, and then the numbers, each array on a border of 64 bytes. It is
mapped, not read. Its name is a digest of all that it depends on, so it is never out of date.
"""

import hashlib
import json
import logging
import math
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.engine.kernels.cpu.library import VERSION
from headrace.engine.kernels.cpu.mapped_file import MappedFile
from headrace.engine.kernels.cpu.memory import Bytes, aligned
from headrace.engine.kernels.cpu.packed_weight import PackedWeight
from headrace.engine.kernels.cpu.storage import Storage
from headrace.engine.models.decoder_config import DecoderConfig
from headrace.engine.models.fused_weights import FusedWeights, Table

MAGIC = b"headrace packed weights 3\n"
EMBEDDING = "embedding"
MIN_BYTES = 4 << 20
"""Smaller models are made for tests."""
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
            start = aligned(file.tell())
            if os.fstat(file.fileno()).st_size != start + header["byte_count"]:
                return None
            mapped = MappedFile(file)
        path.touch()
        return _restore(header, mapped, start)
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
    arrays = _arrays(weights)
    places: dict[str, dict[str, Any]] = {}
    offset = 0
    for name, array in arrays.items():
        places[name] = {"offset": offset, "shape": array.shape, "dtype": array.dtype.str}
        offset += aligned(array.nbytes)
    header = {
        "byte_count": offset,
        "arrays": places,
        "matrices": {name: _facts(matrix) for name, matrix in weights.matrices.items()},
        "parameter_count": weights.parameter_count,
        "embedding_storage": int(weights.embedding.storage),
    }
    with path.open("wb") as file:
        file.write(MAGIC + json.dumps(header).encode() + b"\n")
        for array in arrays.values():
            file.write(b"\0" * (aligned(file.tell()) - file.tell()))
            file.write(np.ascontiguousarray(array).data)
        file.write(b"\0" * (aligned(file.tell()) - file.tell()))
        file.flush()
        os.fsync(file.fileno())


def _arrays(weights: FusedWeights) -> dict[str, NDArray[Any]]:
    """The table of embeddings last: of all others, a step reads everything."""
    arrays: dict[str, NDArray[Any]] = {f"vectors.{name}": vector for name, vector in weights.vectors.items()}
    for name, matrix in weights.matrices.items():
        parts = {"panels": matrix.panels, "bias": matrix.bias, "order": matrix.order}
        arrays |= {f"matrices.{name}.{part}": array for part, array in parts.items() if array is not None}
    return arrays | {EMBEDDING: weights.embedding.numbers}


def _facts(matrix: PackedWeight) -> dict[str, int]:
    return {name: int(getattr(matrix, name)) for name in ("storage", "out_size", "in_size", "group")}


def _restore(header: dict[str, Any], file: MappedFile, start: int) -> FusedWeights:
    memory = file.bytes[start:]
    arrays = {name: _view(memory, **place) for name, place in header["arrays"].items()}
    table = Table(arrays.pop(EMBEDDING), Storage(header["embedding_storage"]))
    file.expect(memory[: header["arrays"][EMBEDDING]["offset"]])
    weights = FusedWeights(table, parameter_count=header["parameter_count"], file=file)
    for name, array in arrays.items():
        if name.startswith("vectors."):
            weights.vectors[name.removeprefix("vectors.")] = array
    for name, facts in header["matrices"].items():
        bias, order = (arrays.get(f"matrices.{name}.{part}") for part in ("bias", "order"))
        facts["storage"] = Storage(facts["storage"])
        weights.matrices[name] = PackedWeight(arrays[f"matrices.{name}.panels"], **facts, bias=bias, order=order)
    return weights


def _view(memory: Bytes, offset: int, shape: list[int], dtype: str) -> NDArray[Any]:
    kind = np.dtype(dtype)
    return memory[offset : offset + kind.itemsize * math.prod(shape)].view(kind).reshape(shape)


def _drop_oldest(folder: Path) -> None:
    files = sorted(folder.glob("*.packed"), key=lambda file: file.stat().st_mtime, reverse=True)
    for file in files[MOST_FILES:]:
        file.unlink(missing_ok=True)
