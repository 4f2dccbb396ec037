"""The current device of a thread, on which Triton launches kernels and torch pins memory, whatever device the tensors
of a call are on."""

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch

ENTERED: dict[str, Callable[[torch.device], AbstractContextManager[Any]]] = {
    "cuda": torch.cuda.device,
    "cpu": contextlib.nullcontext,
}
"""Context in which a device is the current one of its thread, by the device's kind. A CPU is current without one."""


def on_device(device: torch.device) -> AbstractContextManager[Any]:
    """Returns a context in which `device` is the current one of this thread. Whatever computes on a device enters it,
    because loading and stepping have threads of their own, and a new thread begins with the first card."""
    return ENTERED.get(device.type, contextlib.nullcontext)(device)
