"""Tests the kernels of each instruction set against numpy before use: a compiler or a processor may report features it
does not handle correctly."""

import functools
import logging
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.engine.kernels.context import KernelContext
from headrace.engine.kernels.library import Instructions, available, load_kernels
from headrace.engine.kernels.packed_weight import PackedWeight, pack_codes, pack_plain
from headrace.engine.kernels.storage import Storage

OUT, IN, GROUP, ROWS = 40, 128, 64, 5
LARGEST_ERROR = {"exact": 1e-5, "quantized": 0.03}
"""Largest error that passes, relative to the norm of the result."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Candidate:
    """An instruction set, and whether its kernels may be used."""

    instructions: Instructions
    reason: str
    """Reason why the kernels may not be used; empty if they may."""


@functools.cache
def candidates() -> tuple[Candidate, ...]:
    """Tests all instruction sets, fastest first."""
    if load_kernels() is None:
        return tuple(Candidate(each, "the kernels are not compiled") for each in reversed(Instructions))
    here = available()
    return tuple(
        Candidate(each, _try(each) if each in here else "this processor does not have it")
        for each in reversed(Instructions)
    )


def choose_instructions() -> Instructions | None:
    """Returns the fastest set whose kernels compute correct results. Logs once if a faster one does not."""
    for candidate in candidates():
        if not candidate.reason:
            return candidate.instructions
        if candidate.instructions in available():
            _log.error("kernels are not used", extra={"kernels": candidate.instructions.name, "why": candidate.reason})
    return None


def _try(instructions: Instructions) -> str:
    context = KernelContext(1, instructions)
    generator = np.random.default_rng(1)
    inputs = generator.standard_normal((ROWS, IN), np.float32)
    for storage, (packed, weight) in _weights(generator).items():
        expected = inputs.astype(np.float64) @ weight.astype(np.float64).T
        for kind, limit in LARGEST_ERROR.items():
            found = context.product(packed, inputs, exact=kind == "exact")
            error = float(np.linalg.norm(found - expected) / np.linalg.norm(expected))
            if not error < limit:
                return f"the {kind} product with {storage.name} weights is off by {error:.1e}"
    return ""


def _weights(generator: np.random.Generator) -> dict[Storage, tuple[PackedWeight, NDArray[np.float32]]]:
    """Returns packed weights in each storage, with the numbers they stand for."""
    rows = np.arange(OUT)
    plain = generator.standard_normal((OUT, IN), np.float32)
    half = plain.astype(np.float16)
    brain = plain.view(np.uint32) >> 16
    weights = {
        Storage.F32: (pack_plain(plain, Storage.F32, rows), plain),
        Storage.F16: (pack_plain(half, Storage.F16, rows), half.astype(np.float32)),
        Storage.BF16: (pack_plain(brain.astype(np.uint16), Storage.BF16, rows), (brain << 16).view(np.float32)),
    }
    scales = generator.random((OUT, IN // GROUP), np.float32)
    for storage, bits in ((Storage.U4, 4), (Storage.S8, 8)):
        codes = generator.integers(0, 1 << bits, (OUT, IN), np.uint8)
        zero = 1 << (bits - 1)
        values = (codes.astype(np.float32) - zero) * scales.repeat(GROUP, axis=1)
        signed = codes ^ np.uint8(0x80 if storage is Storage.S8 else 0)
        zeros = np.full(scales.shape, zero if storage is Storage.U4 else 0, np.uint8)
        weights[storage] = (pack_codes(signed, scales, zeros, storage, rows), values)
    return weights
