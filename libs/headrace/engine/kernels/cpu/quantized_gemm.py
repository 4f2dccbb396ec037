"""Products with weights of 4 and 8 bits that stay packed in memory."""

import ctypes
from concurrent.futures import Future, ThreadPoolExecutor

import torch
from torch import Tensor

from headrace.engine.kernels.cpu.library import address, load_kernels
from headrace.engine.quantization.quantized_matrix import QuantizedMatrix

BLOCK = 32
"""Codes that are packed together. Input sizes and group sizes are multiples of it."""
MIN_OUTPUTS_PER_THREAD = 256
"""Fewer are not worth handing to another thread."""

_pool: ThreadPoolExecutor | None = None


def can_run(matrix: QuantizedMatrix) -> tuple[bool, str]:
    """Whether the kernel can take a matrix, and why not."""
    if load_kernels() is None:
        return False, "the kernels are not compiled"
    if matrix.bits not in (4, 8):
        return False, f"{matrix.bits} bits; the kernel has 4 and 8"
    in_size = matrix.codes.shape[1]
    if matrix.group_size % BLOCK or in_size % matrix.group_size:
        return False, f"groups of {matrix.group_size} in {in_size} inputs; the kernel needs whole groups of {BLOCK}s"
    return True, "ok"


class PackedMatrix:
    """A weight in the layout of the kernel: 4 bits take half a byte per weight, plus scales and zero points in fp32."""

    def __init__(self, matrix: QuantizedMatrix, vectors: bool | None = None) -> None:
        """`vectors` forces the portable code (False) or AVX2 (True); unset takes the best that the CPU has."""
        library = load_kernels()
        if library is None:
            raise RuntimeError("the kernels are not compiled; ask can_run first")
        self._library: ctypes.CDLL = library
        self._vectors = bool(library.headrace_has_avx2()) if vectors is None else vectors
        self.out_size, self.in_size = matrix.codes.shape
        self.bits, self.group_size = matrix.bits, matrix.group_size
        self._codes = self._pack(matrix.codes.contiguous())
        self._scales = matrix.scales.float().contiguous()
        self._zeros = matrix.zeros.float().contiguous()
        self._input_order = matrix.input_order

    @property
    def byte_count(self) -> int:
        """Memory held, in bytes."""
        return sum(tensor.numel() * tensor.element_size() for tensor in (self._codes, self._scales, self._zeros))

    def multiply(self, inputs: Tensor, bias: Tensor | None = None, residual: Tensor | None = None) -> Tensor:
        """fp32 [rows, in] to [rows, out]. A row's bits depend neither on the other rows nor on the threads."""
        if self._input_order is not None:
            inputs = inputs.index_select(1, self._input_order)
        inputs = inputs.contiguous()
        residual = None if residual is None else residual.contiguous()
        rows = inputs.shape[0]
        sums = torch.empty(rows, self.in_size // self.group_size)
        outputs = torch.empty(rows, self.out_size)
        self._library.headrace_group_sums(address(inputs), address(sums), rows, self.in_size, self.group_size)
        pointers = [
            address(tensor)
            for tensor in (inputs, sums, self._codes, self._scales, self._zeros, bias, residual, outputs)
        ]
        sizes = (rows, self.out_size, self.in_size, self.group_size, self.bits, int(self._vectors))
        # ctypes lets go of the GIL, so plain threads run side by side. They split outputs only, never a sum.
        first, *others = _ranges(self.out_size, torch.get_num_threads())
        waiting = [_submit(self._library, pointers, sizes, span) for span in others]
        self._library.headrace_quantized_gemm(*pointers, *sizes, *first)
        for future in waiting:
            future.result()
        return outputs

    def _pack(self, codes: Tensor) -> Tensor:
        if self.bits == 8:
            return codes
        packed = torch.empty(self.out_size, self.in_size // 2, dtype=torch.uint8)
        self._library.headrace_pack_codes(address(codes), address(packed), codes.numel())
        return packed


def _ranges(out_size: int, thread_count: int) -> list[tuple[int, int]]:
    count = max(1, min(thread_count, out_size // MIN_OUTPUTS_PER_THREAD))
    step = -(-out_size // count)
    return [(start, min(start + step, out_size)) for start in range(0, out_size, step)]


def _submit(
    library: ctypes.CDLL, pointers: list[int | None], sizes: tuple[int, ...], span: tuple[int, int]
) -> "Future[None]":
    global _pool
    if _pool is None:
        _pool = ThreadPoolExecutor(max(1, torch.get_num_threads() - 1), thread_name_prefix="gemm")
    return _pool.submit(library.headrace_quantized_gemm, *pointers, *sizes, *span)
