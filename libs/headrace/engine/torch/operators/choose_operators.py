"""Selection of the operators for a device."""

import torch

from headrace.engine.kernels.choice.candidates import choose_instructions
from headrace.engine.kernels.choice.shared_context import shared_context
from headrace.engine.memory.host_cores import usable_core_count
from headrace.engine.torch.operators.kernel_operators import KernelOperators
from headrace.engine.torch.operators.operators import Operators
from headrace.engine.torch.operators.single_row_operators import SingleRowOperators
from headrace.engine.torch.operators.torch_operators import TorchOperators
from headrace.engine.triton.kernel_registry import can_launch
from headrace.errors.tree import ConfigError


def choose_encoder_operators(device: torch.device, thread_count: int | None = None) -> Operators:
    """Chooses the operators of an encoder. Without kernels, encoders compute one input at a time, which is faster than
    one row at a time."""
    chosen = choose_operators(device, thread_count, "torch")
    return TorchOperators() if isinstance(chosen, SingleRowOperators) else chosen


def choose_operators(device: torch.device, thread_count: int | None = None, kernels: str = "auto") -> Operators:
    """Chooses the operators of a decoder. `thread_count` is for the kernels. Unset: one thread per core. `kernels` is
    that of the settings. Raises ConfigError if they ask for Triton where it does not run."""
    fits, reason = can_use_triton(device, kernels)
    if fits:
        # Imports Triton, which only GPUs need.
        from headrace.engine.torch.operators.triton_operators import TritonOperators

        return TritonOperators()
    if kernels == "triton":
        raise ConfigError(
            f"kernels is 'triton', but {reason}; use auto, or choose the interpreter, which is slow: set "
            "TRITON_INTERPRET=1",
            param="kernels",
        )
    if device.type != "cpu":
        return TorchOperators()
    if choose_instructions() is None:
        return SingleRowOperators()
    return KernelOperators(shared_context(thread_count or usable_core_count()))


def can_use_triton(device: torch.device, kernels: str) -> tuple[bool, str]:
    """Whether a decoder runs on the kernels in Triton, and the reason if it does not: on a GPU unless the settings ask
    for torch alone, and on a CPU, in an interpreter, only if they ask for it."""
    if kernels == "torch":
        return False, "the settings ask for torch"
    if device.type == "cpu" and kernels != "triton":
        return False, "the device is no GPU"
    return can_launch(device)
