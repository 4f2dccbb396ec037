"""Weights in the kernels' layout: panels of 16 rows, see `src/matrix.h`."""

import ctypes
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from headrace.engine.kernels.library import Instructions, load_kernels, pointer
from headrace.engine.kernels.storage import BLOCKS, CODED, Storage
from headrace.engine.kernels.structures import Matrix
from headrace.engine.memory.aligned import Bytes, address, allocate
from headrace.engine.memory.host_cores import usable_core_count

_Result = TypeVar("_Result")

PANEL = 16
GRID_BYTES = 4
"""Bytes of the scale of a group of codes, with its zero point."""
PANELS_PER_TASK = 16
"""Panels that a thread rounds at a time."""
GROUPS = (128, 64, 32)
"""Allowed numbers of inputs per quantization group: the largest that divides the weight's own groups is used."""


@dataclass(frozen=True, slots=True)
class PackedWeight:
    """One weight [out, in], with its bias."""

    panels: Bytes
    storage: Storage
    out_size: int
    in_size: int
    group: int
    """Inputs that share a scale; all inputs for plain weights."""
    bias: NDArray[np.float32] | None = None
    """Bias [out]."""
    order: NDArray[np.int32] | None = None
    """Input index of each column [in]. None: in order."""

    def matrix(self, *, exact: bool) -> Matrix:
        """Describes the weight to the kernels. `exact` multiplies codes by the inputs unchanged; otherwise inputs are
        quantized to 8 bits."""
        pointers = (pointer(self.panels), pointer(self.bias), pointer(self.order))
        return Matrix(*pointers, self.out_size, self.in_size, self.group, self.storage, exact)

    @property
    def is_coded(self) -> bool:
        """Whether the weight is stored as codes of 8 bits or fewer."""
        return self.storage in CODED or self.storage in BLOCKS

    @property
    def byte_count(self) -> int:
        """Memory that the panels take, in bytes."""
        return self.panels.nbytes


def pack_plain(weight: NDArray[np.generic], storage: Storage, rows: NDArray[np.int64]) -> PackedWeight:
    """Packs contiguous [., in] numbers in `storage` on all cores. `rows` gives the source row of each packed row, or -1
    for zeros. Raises IndexError for rows that the weight does not have."""
    _check_rows(rows, len(weight))
    in_size, width = weight.shape[1], weight.itemsize
    panel_size = panel_bytes(PANEL, in_size, storage, in_size)
    panels = allocate(panel_bytes(len(rows), in_size, storage, in_size))
    library = _library()

    def pack(first: int) -> None:
        wanted = rows[first : first + PANELS_PER_TASK * PANEL]
        to = address(panels) + first // PANEL * panel_size
        library.headrace_pack_plain(pointer(weight), pointer(wanted), len(wanted), in_size, width, to)

    _on_all_cores(pack, range(0, len(rows), PANELS_PER_TASK * PANEL))
    return PackedWeight(panels, storage, len(rows), in_size, in_size)


def pack_rounded(
    parts: Sequence[NDArray[np.generic]],
    stored: Storage,
    storage: Storage,
    group: int,
    rows: NDArray[np.int64],
    instructions: Instructions,
) -> PackedWeight:
    """Rounds plain numbers to codes of 4 or 8 bits (`storage`) and packs them, on all cores. `parts` [., in],
    contiguous and of the type `stored`, are the rows of the weight; `rows` is as in `pack_plain`. `instructions` must
    be a set that this machine supports: see `why_not`. Chooses the grids that `round_to_nearest.quantize` chooses.
    Raises IndexError as `pack_plain` does, and MemoryError."""
    _check_rows(rows, sum(len(part) for part in parts))
    in_size = parts[0].shape[1]
    places = np.concatenate([address(part) + np.arange(len(part)) * part.strides[0] for part in parts])
    wanted = np.where(rows >= 0, places[np.maximum(rows, 0)], 0).astype(np.uint64)
    packed = PackedWeight(allocate(panel_bytes(len(rows), in_size, storage, group)), storage, len(rows), in_size, group)
    matrix, panel_count = packed.matrix(exact=True), -(-len(rows) // PANEL)
    library = _library()

    def pack(first: int) -> int:
        arguments = (pointer(wanted), stored, matrix, first, min(first + PANELS_PER_TASK, panel_count))
        return int(library.headrace_pack_rounded(instructions, *arguments, pointer(packed.panels)))

    if any(_on_all_cores(pack, range(0, panel_count, PANELS_PER_TASK))):
        raise MemoryError("there is no memory to round weights in")
    return packed


def pack_codes(
    codes: Bytes, scales: NDArray[np.float32], zeros: Bytes, storage: Storage, rows: NDArray[np.int64]
) -> PackedWeight:
    """Packs [., in] codes with scales and zeros [., groups], a byte each, as bytes or nibbles. Scales are rounded to 16
    significant bits. `rows` is as in `pack_plain`. Raises IndexError as `pack_plain` does."""
    _check_rows(rows, len(codes))
    in_size, group_count = codes.shape[1], scales.shape[1]
    group = in_size // group_count
    packed = PackedWeight(allocate(panel_bytes(len(rows), in_size, storage, group)), storage, len(rows), in_size, group)
    pointers = (pointer(codes), pointer(scales), pointer(zeros), pointer(rows))
    _library().headrace_pack_codes(*pointers, packed.matrix(exact=True), pointer(packed.panels))
    return packed


def pack_block_parts(parts: Sequence[Bytes], storage: Storage, rows: NDArray[np.int64]) -> PackedWeight:
    """Packs rows of GGUF's blocks on all cores. `parts` [., bytes], contiguous and as a file has them, are the rows of
    the weight; `rows` is as in `pack_plain`. Raises IndexError as that does, and ValueError for rows that are not made
    of whole blocks of `storage`."""
    _check_rows(rows, sum(map(len, parts)))
    block_format, row_bytes = BLOCKS[storage], parts[0].shape[1]
    for part in parts:
        if row_bytes % block_format.file_bytes or part.shape[1] != row_bytes or part.dtype != np.uint8:
            raise ValueError(f"rows of {part.shape[1]} bytes are not blocks of {storage.name}")
    in_size = row_bytes // block_format.file_bytes * block_format.columns
    panel_size = panel_bytes(PANEL, in_size, storage, block_format.columns)
    panels = allocate(panel_bytes(len(rows), in_size, storage, block_format.columns))
    library = _library()

    def pack(first: int) -> None:
        blocks, wanted = _find_rows(parts, rows[first : first + PANELS_PER_TASK * PANEL])
        to = address(panels) + first // PANEL * panel_size
        library.headrace_pack_blocks(pointer(blocks), pointer(wanted), len(wanted), in_size, storage, to)

    _on_all_cores(pack, range(0, len(rows), PANELS_PER_TASK * PANEL))
    return PackedWeight(panels, storage, len(rows), in_size, block_format.columns)


def _on_all_cores(task: Callable[[int], _Result], firsts: range) -> list[_Result]:
    """Runs a task for each of `firsts`. A single one needs no threads: the self test packs many small weights."""
    if len(firsts) < 2:
        return [task(first) for first in firsts]
    with ThreadPoolExecutor(usable_core_count()) as threads:
        return list(threads.map(task, firsts))


def _find_rows(parts: Sequence[Bytes], rows: NDArray[np.int64]) -> tuple[Bytes, NDArray[np.int64]]:
    """Returns an array that has all rows that are wanted of `parts`, and their places in it, -1 for zeros: a part
    itself, if it is contiguous and has them all, else a copy."""
    found = np.zeros((len(rows), parts[0].shape[1]), np.uint8)
    begin = 0
    for part in parts:
        is_here = (rows >= begin) & (rows < begin + len(part))
        places = rows - begin
        if is_here.all() and part.flags.c_contiguous:
            return part, places
        found[is_here] = part[places[is_here]]
        begin += len(part)
    return found, np.where(rows >= 0, np.arange(len(rows)), -1)


def panel_bytes(out_size: int, in_size: int, storage: Storage, group: int) -> int:
    """Returns the bytes of a weight's [out, in] panels. Codes add a grid per row and group."""
    if storage in BLOCKS:
        return -(-out_size // PANEL) * BLOCKS[storage].padded_panel_bytes(in_size)
    row_bytes = int(in_size * storage.byte_count)
    if storage in CODED:
        row_bytes += in_size // group * GRID_BYTES
    return -(-out_size // PANEL) * PANEL * row_bytes


def _check_rows(rows: NDArray[np.int64], row_count: int) -> None:
    if len(rows) and (rows.min() < -1 or rows.max() >= row_count):
        raise IndexError(f"rows {rows.min()} to {rows.max()} are wanted of a weight that has {row_count}")


def _library() -> ctypes.CDLL:
    library = load_kernels()
    if library is None:
        raise RuntimeError("the kernels are not compiled; ask can_pack first")
    return library
