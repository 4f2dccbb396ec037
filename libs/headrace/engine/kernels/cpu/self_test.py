"""Tries the kernels of each instruction set against torch before they are used: a compiler or a processor may be wrong
about what it can do."""

import functools
import logging
from dataclasses import dataclass

import torch
from torch import Tensor

from headrace.engine.kernels.cpu.context import KernelContext
from headrace.engine.kernels.cpu.library import Instructions, available, load_kernels
from headrace.engine.kernels.cpu.packed_weight import PackedWeight, pack
from headrace.engine.quantization.quantized_matrix import QuantizedMatrix

OUT, IN, GROUP, ROWS = 40, 128, 64, 5
LARGEST_ERROR = {"exact": 1e-5, "quantised": 0.03}
"""Relative to the length of the result."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Candidate:
    """An instruction set, and whether its kernels may be used."""

    instructions: Instructions
    reason: str
    """Why not; empty if they may."""


@functools.cache
def candidates() -> tuple[Candidate, ...]:
    """All instruction sets, the fastest first."""
    if load_kernels() is None:
        return tuple(Candidate(each, "the kernels are not compiled") for each in reversed(Instructions))
    here = available()
    return tuple(
        Candidate(each, _try(each) if each in here else "this processor does not have it")
        for each in reversed(Instructions)
    )


def choose_instructions() -> Instructions | None:
    """The fastest set whose kernels compute what they should. Says so once when a faster one does not."""
    for candidate in candidates():
        if not candidate.reason:
            return candidate.instructions
        if candidate.instructions in available():
            _log.error("kernels are not used", extra={"kernels": candidate.instructions.name, "why": candidate.reason})
    return None


def _try(instructions: Instructions) -> str:
    context = KernelContext(1, instructions)
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(ROWS, IN, generator=generator)
    for name, (packed, weight) in _weights(generator).items():
        expected = inputs.double() @ weight.double().T
        for kind, limit in LARGEST_ERROR.items():
            found = context.product(packed, inputs, exact=kind == "exact")
            error = float((found - expected).norm() / expected.norm())
            if not error < limit:
                return f"the {kind} product with {name} is off by {error:.1e}"
    return ""


def _weights(generator: torch.Generator) -> dict[str, tuple[PackedWeight, Tensor]]:
    """Weights in each storage, and what they stand for."""
    plain = torch.randn(OUT, IN, generator=generator)
    found = {
        f"{each}".removeprefix("torch."): plain.to(each) for each in (torch.float32, torch.bfloat16, torch.float16)
    }
    weights = {name: (pack(weight), weight) for name, weight in found.items()}
    for bits in (4, 8):
        codes = torch.randint(0, 1 << bits, (OUT, IN), generator=generator).to(torch.uint8)
        zeros = torch.full((OUT, IN // GROUP), 1 << (bits - 1), dtype=torch.uint8)
        matrix = QuantizedMatrix(codes, torch.rand(OUT, IN // GROUP, generator=generator), zeros, bits, GROUP)
        weights[f"int{bits}"] = (pack(matrix), matrix.dequantize())
    return weights
