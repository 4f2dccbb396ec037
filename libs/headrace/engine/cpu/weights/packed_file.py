"""Packed weights in a file whose every byte is checked before use.

A file holds a line that names the format, a line with the digest of the third line, a line of JSON that gives the
offset and checksums of each array, and then the arrays, each aligned to 64 bytes. It is mapped, not read.
"""

import hashlib
import json
import math
import operator
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, BinaryIO

import numpy as np
import xxhash
from numpy.typing import NDArray

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.cpu.weights.packed_layout import check_layout
from headrace.engine.cpu.weights.packed_weights import PackedWeights, Table
from headrace.engine.kernels.library import VERSION
from headrace.engine.kernels.packed_weight import PackedWeight
from headrace.engine.kernels.storage import Storage
from headrace.engine.memory.aligned import Bytes, aligned
from headrace.engine.memory.host_cores import usable_core_count
from headrace.engine.memory.mapped_file import MappedFile

MAGIC = b"headrace packed weights 5\n"
EMBEDDING = "embedding"
MATRIX_FACTS = ("storage", "out_size", "in_size", "group")
"""Numbers of a matrix that its header gives."""
MAX_HEADER_BYTES = 64 << 20
PIECE_BYTES = 4 << 20
"""Bytes per checksum: each thread checks one piece at a time, which fits its cache."""
MAX_THREADS = 8

Json = dict[str, Any]


def write_packed(file: BinaryIO, weights: PackedWeights, key: str) -> None:
    """Writes the whole file to disk. `key` identifies the checkpoint. Raises OSError."""
    arrays = {name: np.ascontiguousarray(array) for name, array in _arrays(weights).items()}
    places: dict[str, Json] = {}
    offset = 0
    for name, array in arrays.items():
        checksums = [xxhash.xxh3_64_intdigest(piece) for piece in _pieces(array)]
        places[name] = {"offset": offset, "shape": array.shape, "dtype": array.dtype.str, "checksums": checksums}
        offset += aligned(array.nbytes)
    header = {
        "key": key,
        "version": VERSION,
        "byte_count": offset,
        "arrays": places,
        "matrices": {name: _facts(matrix) for name, matrix in weights.matrices.items()},
        "parameter_count": weights.parameter_count,
        "embedding_storage": int(weights.embedding.storage),
        "has_shared_table": weights.has_shared_table,
    }
    line = json.dumps(header).encode() + b"\n"
    file.write(MAGIC + _digest(line) + line)
    file.write(b"\0" * (aligned(file.tell()) - file.tell()))
    for array in arrays.values():
        file.writelines(_pieces(array))
    file.flush()
    os.fsync(file.fileno())


def read_packed(file: BinaryIO, config: DecoderConfig, key: str) -> PackedWeights:
    """Maps a file after it passes every check. Raises OSError, or ValueError naming the check that failed."""
    header, start = _read_header(file)
    for name, expected in (("key", key), ("version", VERSION)):
        if header[name] != expected:
            raise ValueError(f"its {name} is {header[name]!r}, not {expected!r}")
    size = os.fstat(file.fileno()).st_size
    if size != start + header["byte_count"]:
        raise ValueError(f"it has {size} bytes, not {start + header['byte_count']}")
    _check_content(file, header, start)
    if type(header["parameter_count"]) is not int or header["parameter_count"] < 0:
        raise ValueError(f"its parameter_count is {header['parameter_count']!r}")
    try:
        weights = _restore(header, MappedFile(file), start)
    except (KeyError, TypeError) as error:
        raise ValueError(f"its header does not describe weights: {error!r}") from None
    check_layout(weights, config)
    return weights


def _read_header(file: BinaryIO) -> tuple[Json, int]:
    """Returns the header and the offset of the first array."""
    if file.readline(len(MAGIC)) != MAGIC:
        raise ValueError("it is of another format")
    digest = file.readline(len(_digest(b"")))
    line = file.readline(MAX_HEADER_BYTES)
    if _digest(line) != digest:
        raise ValueError("its header is damaged")
    gap = aligned(file.tell()) - file.tell()
    if file.read(gap) != b"\0" * gap:
        raise ValueError("the gap after its header is damaged")
    header: Json = json.loads(line)
    return header, file.tell()


def _digest(line: bytes) -> bytes:
    return hashlib.blake2b(line, digest_size=32).hexdigest().encode() + b"\n"


def _check_content(file: BinaryIO, header: Json, start: int) -> None:
    """Reads all arrays and compares their checksums. Raises ValueError if one differs or if bytes are not covered."""
    pieces: list[tuple[int, int, int]] = []
    end = 0
    for place in header["arrays"].values():
        size = aligned(np.dtype(place["dtype"]).itemsize * math.prod(place["shape"]))
        starts = range(end, end + size, PIECE_BYTES)
        if place["offset"] != end or len(starts) != len(place["checksums"]):
            raise ValueError("its arrays do not follow each other")
        for at, checksum in zip(starts, place["checksums"], strict=True):
            pieces.append((start + at, min(PIECE_BYTES, end + size - at), checksum))
        end += size
    if end != header["byte_count"]:
        raise ValueError("its arrays do not fill it")
    with ThreadPoolExecutor(min(MAX_THREADS, usable_core_count())) as threads:
        for (at, _, _), fits in zip(pieces, threads.map(lambda piece: _fits(file, *piece), pieces), strict=True):
            if not fits:
                raise ValueError(f"its content is damaged within {PIECE_BYTES} bytes from byte {at}")


def _fits(file: BinaryIO, at: int, size: int, checksum: int) -> bool:
    piece = os.pread(file.fileno(), size, at)
    return len(piece) == size and xxhash.xxh3_64_intdigest(piece) == checksum


def _pieces(array: NDArray[Any]) -> Iterator[bytes | memoryview]:
    """Yields the bytes of an array and of the padding after it. Copies only the last piece."""
    numbers = array.reshape(-1).view(np.uint8).data
    gap = b"\0" * (aligned(array.nbytes) - array.nbytes)
    for at in range(0, array.nbytes, PIECE_BYTES):
        piece = numbers[at : at + PIECE_BYTES]
        is_last = at + PIECE_BYTES >= array.nbytes
        yield bytes(piece) + gap if is_last else piece


def _arrays(weights: PackedWeights) -> dict[str, NDArray[Any]]:
    """Lists the arrays, with the embedding table last: a step reads all of every other array."""
    arrays: dict[str, NDArray[Any]] = {f"vectors.{name}": vector for name, vector in weights.vectors.items()}
    for name, matrix in weights.matrices.items():
        parts = {"panels": matrix.panels, "bias": matrix.bias, "order": matrix.order}
        arrays |= {f"matrices.{name}.{part}": array for part, array in parts.items() if array is not None}
    return arrays if weights.has_shared_table else arrays | {EMBEDDING: weights.embedding.numbers}


def _facts(matrix: PackedWeight) -> dict[str, int]:
    return {name: int(getattr(matrix, name)) for name in MATRIX_FACTS}


def _restore(header: Json, file: MappedFile, start: int) -> PackedWeights:
    memory = file.bytes[start:]
    arrays = {
        name: _view(memory, place["offset"], place["shape"], place["dtype"]) for name, place in header["arrays"].items()
    }
    is_shared = header["has_shared_table"]
    numbers = arrays["matrices.head.panels"] if is_shared else arrays.pop(EMBEDDING)
    table = Table(numbers, Storage(header["embedding_storage"]))
    file.expect(memory[: header["byte_count"] if is_shared else header["arrays"][EMBEDDING]["offset"]])
    weights = PackedWeights(table, parameter_count=header["parameter_count"])
    for name, array in arrays.items():
        if name.startswith("vectors."):
            weights.vectors[name.removeprefix("vectors.")] = array
    for name, facts in header["matrices"].items():
        bias, order = (arrays.get(f"matrices.{name}.{part}") for part in ("bias", "order"))
        storage, out_size, in_size, group = (operator.index(facts[fact]) for fact in MATRIX_FACTS)
        panels = arrays[f"matrices.{name}.panels"]
        weights.matrices[name] = PackedWeight(panels, Storage(storage), out_size, in_size, group, bias, order)
    return weights


def _view(memory: Bytes, offset: int, shape: list[int], dtype: str) -> NDArray[Any]:
    kind = np.dtype(dtype)
    return memory[offset : offset + kind.itemsize * math.prod(shape)].view(kind).reshape(shape)
