"""Weights in the layout of the kernels: panels of 16 rows, see `src/matrix.h`."""

import ctypes
from collections.abc import Sequence

import torch
from torch import Tensor

from headrace.engine.kernels.cpu.library import address, load_kernels
from headrace.engine.kernels.cpu.storage import Storage, compact, storage_of
from headrace.engine.kernels.cpu.structures import Matrix
from headrace.engine.quantization.quantized_matrix import QuantizedMatrix, Weight

PANEL = 16
GROUPS = (128, 64, 32)
"""Inputs that are quantised together: the largest that divides the groups of the weight."""


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


class PackedWeight:
    """One weight [out, in], with its bias."""

    def __init__(
        self,
        weight: Weight,
        bias: Tensor | None = None,
        rows: Sequence[int] | Tensor | None = None,
        *,
        exact: bool = False,
    ) -> None:
        """`rows` names the row of `weight` and `bias` that each row of the product has, -1 for zeros; unset: all as
        they come. `exact` multiplies codes by plain inputs; else inputs are quantised to 8 bits."""
        shape = weight.codes.shape if isinstance(weight, QuantizedMatrix) else weight.shape
        chosen = torch.arange(shape[0]) if rows is None else torch.as_tensor(rows, dtype=torch.int64)
        self.out_size, self.in_size = len(chosen), int(shape[1])
        self._bias = None if bias is None else _pick(bias.float(), chosen)
        self._order: Tensor | None = None
        if isinstance(weight, QuantizedMatrix):
            self._panels, storage, group = _pack_codes(weight, chosen)
            if weight.input_order is not None:
                self._order = weight.input_order.to(torch.int32).contiguous()
        else:
            self._panels, storage = _pack_plain(compact(weight).contiguous(), chosen)
            group = self.in_size
        self.matrix = Matrix(
            address(self._panels),
            address(self._bias),
            address(self._order),
            self.out_size,
            self.in_size,
            group,
            storage,
            exact,
        )

    @property
    def is_coded(self) -> bool:
        """It is held in codes of 8 bits or fewer."""
        return self.matrix.storage in (Storage.U4, Storage.S8)

    @property
    def byte_count(self) -> int:
        """Memory held, in bytes."""
        return self._panels.numel()


def _pick(values: Tensor, rows: Tensor) -> Tensor:
    return torch.where(rows >= 0, values[rows.clamp(min=0)], 0.0).contiguous()


def _group(matrix: QuantizedMatrix) -> int | None:
    return next((size for size in GROUPS if matrix.group_size % size == 0), None)


def _pack_plain(weight: Tensor, rows: Tensor) -> tuple[Tensor, Storage]:
    storage = storage_of(weight)
    in_size = weight.shape[1]
    panels = torch.empty(-(-len(rows) // PANEL) * PANEL * in_size * weight.element_size(), dtype=torch.uint8)
    _library().headrace_pack_plain(
        address(weight), address(rows), len(rows), in_size, weight.element_size(), address(panels)
    )
    return panels, storage


def _pack_codes(matrix: QuantizedMatrix, rows: Tensor) -> tuple[Tensor, Storage, int]:
    """Panels, storage and group size. Codes of 8 bits become signed."""
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
    size = int(in_size * PANEL * storage.byte_count) + in_size // group * PANEL * 5
    panels = torch.empty(-(-len(rows) // PANEL) * size, dtype=torch.uint8)
    _library().headrace_pack_codes(
        address(codes),
        address(scales),
        address(zeros),
        address(rows),
        len(rows),
        in_size,
        group,
        storage,
        address(panels),
    )
    return panels, storage, group


def _library() -> ctypes.CDLL:
    library = load_kernels()
    if library is None:
        raise RuntimeError("the kernels are not compiled; ask can_pack first")
    return library
