"""Tells checkpoints apart by their contents, without reading all of them.

A start with packed weights takes tenths of a second; reading a checkpoint takes many seconds. So small files are hashed
whole, and large ones only at the beginning, middle and end of every tensor: two versions of a model differ everywhere.
The key also has size and modification time, for versions that differ in only a few numbers. Those two alone would not
do, because tools that build images set all times to the same value.
"""

import hashlib
import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import xxhash

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.weights.weight_rounding import WeightRounding
from headrace.engine.kernels.library import VERSION
from headrace.gguf_text.gguf_parts import parts_named_like

WHOLE_BYTES = 1 << 20
"""Size in bytes of the largest file hashed whole."""
SAMPLE_BYTES = 4096
EVEN_SAMPLES = 1024
"""Number of evenly spaced samples of a file whose tensor offsets are unknown."""
MAX_HEADER_BYTES = 100 << 20
"""Largest header in bytes: the limit of the safetensors library."""
_HEADER_SIZE = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class Packing:
    """Settings that packed weights depend on."""

    rounding: WeightRounding
    exact: bool
    """Whether products take their inputs unchanged, and the head stays as precise as the checkpoint has it."""
    keeps_blocks: bool
    """Whether blocks of GGUF are multiplied as they are."""


def packed_path(folder: Path, source: Path, config: DecoderConfig, packing: Packing) -> Path:
    """Returns the path of a checkpoint's packed weights. The name is unique to its contents, shapes, settings and
    version of the packed layout. Raises OSError if the checkpoint's folder cannot be listed."""
    files = (
        parts_named_like(source) if source.is_file() else sorted(file for file in source.iterdir() if file.is_file())
    )
    found = [(file.name, *_facts(file)) for file in files]
    facts = repr((VERSION, str(source.resolve()), found, config, packing))
    return folder / f"{source.stem}-{hashlib.blake2b(facts.encode(), digest_size=16).hexdigest()}.packed"


def _facts(path: Path) -> tuple[int, str] | tuple[()]:
    """Returns the time and the fingerprint of a file; nothing of one that cannot be read, which may be no part of the
    model: if it is, its reader will complain."""
    try:
        return path.stat().st_mtime_ns, file_fingerprint(path)
    except OSError:
        return ()


def file_fingerprint(path: Path) -> str:
    """Digest of a file's size and samples of its content."""
    size = path.stat().st_size
    digest = xxhash.xxh3_128(_HEADER_SIZE.pack(size))
    with path.open("rb") as file:
        for begin, end in _samples(file, path.suffix, size):
            file.seek(begin)
            digest.update(file.read(end - begin))
    return digest.hexdigest()


def _samples(file: BinaryIO, suffix: str, size: int) -> Iterator[tuple[int, int]]:
    """Yields the start and end offsets of each part of a file to read."""
    if size <= WHOLE_BYTES:
        yield 0, size
        return
    tensors = _tensors(file, size) if suffix == ".safetensors" else None
    if tensors is None:
        yield 0, WHOLE_BYTES
        step = size // EVEN_SAMPLES
        tensors = [(begin, min(begin + step, size)) for begin in range(0, size, step)]
    else:
        yield 0, min(begin for begin, _ in tensors)
    for begin, end in tensors:
        middle = (begin + end) // 2
        for start in sorted({begin, max(begin, middle - SAMPLE_BYTES // 2), max(begin, end - SAMPLE_BYTES)}):
            yield start, min(start + SAMPLE_BYTES, end)


def _tensors(file: BinaryIO, size: int) -> list[tuple[int, int]] | None:
    """Finds the start and end offsets of a safetensors file's tensors, in order. Returns None for a malformed file: its
    reader will complain."""
    try:
        (header_size,) = _HEADER_SIZE.unpack(file.read(_HEADER_SIZE.size))
        if header_size > min(size, MAX_HEADER_BYTES):
            return None
        header = json.loads(file.read(header_size))
        base = _HEADER_SIZE.size + header_size
        places = [entry["data_offsets"] for name, entry in header.items() if name != "__metadata__"]
        tensors = sorted((base + int(begin), base + int(end)) for begin, end in places)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, struct.error):
        return None
    return tensors if tensors and all(base <= begin <= end <= size for begin, end in tensors) else None
