"""Tests the kernels of an instruction set before use: a compiler or a processor may report features it does not handle
correctly. Products of plain weights and codes are compared with numpy, and all that `run_trials` runs with the portable
kernels, bit by bit."""

import functools

import numpy as np

from headrace.engine.kernels.choice.trials.run_trials import run_trials
from headrace.engine.kernels.choice.trials.trial_weights import TrialWeight, name_of, trial_weights
from headrace.engine.kernels.context import KernelContext
from headrace.engine.kernels.library import Instructions

OUT, IN, ROWS = 40, 128, 5
THREADS = 2
LARGEST_ERROR = {"exact": 1e-5, "quantized": 0.03}
"""Largest error that passes, relative to the norm of the result."""


def failure_of(instructions: Instructions) -> str:
    """Returns the reason why the kernels of an instruction set may not be used; empty if they may."""
    context = KernelContext(THREADS, instructions)
    return _compare_with_numpy(context) or _compare_with_portable(context)


def _compare_with_numpy(context: KernelContext) -> str:
    inputs = np.random.default_rng(1).standard_normal((ROWS, IN), np.float32)
    for weight in _weights():
        packed, columns = weight.packed, inputs if weight.packed.order is None else inputs[:, weight.packed.order]
        expected = columns.astype(np.float64) @ weight.values.astype(np.float64).T
        expected += 0.0 if packed.bias is None else packed.bias
        for kind, limit in LARGEST_ERROR.items():
            found = context.product(packed, inputs, exact=kind == "exact")
            error = float(np.linalg.norm(found - expected) / np.linalg.norm(expected))
            if not error < limit:
                return f"the {kind} product with {name_of(packed)} is off by {error:.1e}"
    return ""


@functools.cache
def _weights() -> list[TrialWeight]:
    return trial_weights(np.random.default_rng(2), OUT, IN)


def _compare_with_portable(context: KernelContext) -> str:
    if context.instructions is Instructions.PORTABLE:
        return ""
    for (name, found), expected in zip(run_trials(context), _portable_results(), strict=True):
        if found.tobytes() != expected:
            return f"the {name} has other bits than that of the portable kernels"
    return ""


@functools.cache
def _portable_results() -> list[bytes]:
    return [found.tobytes() for _, found in run_trials(KernelContext(THREADS, Instructions.PORTABLE))]
