"""The threads and the working memory of the kernels."""

import ctypes

import torch
from torch import Tensor

from headrace.engine.kernels.cpu.library import Instructions, address, available, load_kernels
from headrace.engine.kernels.cpu.packed_weight import PackedWeight
from headrace.engine.kernels.cpu.structures import Model, Step


class KernelContext:
    """Runs kernels one after the other on its threads. Not thread-safe: one thread calls."""

    def __init__(self, thread_count: int, instructions: Instructions | None = None) -> None:
        """`instructions` forces a set; unset takes the fastest. Raises RuntimeError where there is none."""
        library = load_kernels()
        chosen = max(available(), default=None) if instructions is None else instructions
        handle = None if library is None or chosen is None else library.headrace_open(thread_count, chosen)
        if library is None or handle is None:
            raise RuntimeError(f"the kernels cannot run here: {chosen!r} of {available()!r}")
        self._library: ctypes.CDLL = library
        self._handle = handle
        self.instructions = chosen
        self.thread_count = thread_count

    def __del__(self) -> None:
        if hasattr(self, "_handle"):
            self._library.headrace_close(self._handle)

    def step(self, model: Model, step: Step) -> None:
        """Runs a decoder. Raises MemoryError."""
        if self._library.headrace_step(self._handle, model, step):
            raise MemoryError("no memory for the step")

    def product(
        self, weight: PackedWeight, inputs: Tensor, residual: Tensor | None = None, *, exact: bool = False
    ) -> Tensor:
        """fp32 [rows, in] to [rows, out], plus `residual`. See `PackedWeight.matrix`. Raises MemoryError."""
        inputs = inputs.contiguous()
        residual = None if residual is None else residual.contiguous()
        outputs = torch.empty(len(inputs), weight.out_size)
        pointers = (address(inputs), address(residual), address(outputs))
        if self._library.headrace_product(self._handle, weight.matrix(exact=exact), *pointers, len(inputs)):
            raise MemoryError("no memory for the product")
        return outputs
