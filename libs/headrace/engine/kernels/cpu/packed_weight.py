"""Weights in the layout of the kernels: panels of 16 rows, see `src/matrix.h`."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from headrace.engine.kernels.cpu.library import address, load_kernels
from headrace.engine.kernels.cpu.memory import allocate
from headrace.engine.kernels.cpu.storage import Storage, compact, storage_of
from headrace.engine.kernels.cpu.structures import Matrix
from headrace.engine.quantization.quantized_matrix import QuantizedMatrix, Weight

PANEL = 16
GROUPS = (128, 64, 32)
"""Inputs that are quantised together: the largest that divides the groups of the weight."""


@dataclass(frozen=True, slots=True)
class PackedWeight:
    """One weight [out, in], with its bias."""

    panels: Tensor
    """uint8."""
    storage: Storage
    out_size: int
    in_size: int
    group: int
    """Inputs that share a scale; all of them for plain weights."""
    bias: Tensor | None = None
    """fp32 [out]."""
    order: Tensor | None = None
    """int32 [in]: which input each column belongs to. None: as they come."""

    def matrix(self, *, exact: bool) -> Matrix:
        """For the kernels. `exact` multiplies codes by inputs as they are; else inputs are quantised to 8 bits."""
        pointers = (address(self.panels), address(self.bias), address(self.order))
        return Matrix(*pointers, self.out_size, self.in_size, self.group, self.storage, exact)

    @property
    def is_coded(self) -> bool:
        """It is held in codes of 8 bits or fewer."""
        return self.storage in (Storage.U4, Storage.S8)

    @property
    def byte_count(self) -> int:
        """Memory held, in bytes."""
        return self.panels.numel()


def can_pack(weight: Weight) -> tuple[bool, str]:
    """Whether the kernels can take a weight, and why not."""
    if load_kernels() is None:
        return False, "the kernels are not compiled"
    if weight.device.type != "cpu" if isinstance(weight, Tensor) else weight.codes.device.type != "cpu":
        return False, "the weight is not in the memory of the CPU"
    if isinstance(weight, QuantizedMatrix):
        in_size = weight.codes.shape[1]
        if in_size % weight.group_size or _group(weight) is None:
            return False, f"groups of {weight.group_size} in {in_size} inputs; the kernels need whole groups of 32s"
    return True, "ok"


def pack(weight: Weight, bias: Tensor | None = None, rows: Sequence[int] | Tensor | None = None) -> PackedWeight:
    """`rows` names the row of `weight` and `bias` that each row of the product has, -1 for zeros; unset: all as they
    come. Plain weights take 16 bits each where that loses nothing."""
    shape = weight.codes.shape if isinstance(weight, QuantizedMatrix) else weight.shape
    chosen = torch.arange(shape[0]) if rows is None else torch.as_tensor(rows, dtype=torch.int64)
    picked = None if bias is None else _pick(bias.float(), chosen)
    if isinstance(weight, QuantizedMatrix):
        return _pack_codes(weight, picked, chosen)
    return _pack_plain(compact(weight).contiguous(), picked, chosen)


def _pick(values: Tensor, rows: Tensor) -> Tensor:
    return torch.where(rows >= 0, values[rows.clamp(min=0)], 0.0).contiguous()


def _group(matrix: QuantizedMatrix) -> int | None:
    return next((size for size in GROUPS if matrix.group_size % size == 0), None)


def _pack_plain(weight: Tensor, bias: Tensor | None, rows: Tensor) -> PackedWeight:
    in_size, width = weight.shape[1], weight.element_size()
    panels = allocate(_panel_count(rows) * PANEL * in_size * width)
    _library().headrace_pack_plain(address(weight), address(rows), len(rows), in_size, width, address(panels))
    return PackedWeight(panels, storage_of(weight), len(rows), in_size, in_size, bias)


def _pack_codes(matrix: QuantizedMatrix, bias: Tensor | None, rows: Tensor) -> PackedWeight:
    """Codes of 8 bits become signed."""
    group = _group(matrix)
    if group is None:
        raise ValueError("ask can_pack first")
    storage = Storage.U4 if matrix.bits <= 4 else Storage.S8
    repeats = matrix.group_size // group
    scales = matrix.scales.repeat_interleave(repeats, dim=1).float().contiguous()
    zeros = matrix.zeros.repeat_interleave(repeats, dim=1).contiguous()
    codes = matrix.codes.contiguous()
    if storage is Storage.S8:
        codes, zeros = codes ^ 0x80, zeros ^ 0x80
    in_size = codes.shape[1]
    panels = allocate(_panel_count(rows) * (int(in_size * PANEL * storage.byte_count) + in_size // group * PANEL * 5))
    pointers = (address(codes), address(scales), address(zeros), address(rows))
    _library().headrace_pack_codes(*pointers, len(rows), in_size, group, storage, address(panels))
    order = None if matrix.input_order is None else matrix.input_order.to(torch.int32).contiguous()
    return PackedWeight(panels, storage, len(rows), in_size, group, bias, order)


def _panel_count(rows: Tensor) -> int:
    return -(-len(rows) // PANEL)


def _library() -> ctypes.CDLL:
    library = load_kernels()
    if library is None:
        raise RuntimeError("the kernels are not compiled; ask can_pack first")
    return library
