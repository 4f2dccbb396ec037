"""A current device for CPUs, one per thread as CUDA has it, and a check that whatever needs one runs under it."""

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.libs.engine.triton.interpreter import repair_products
from triton.runtime import interpreter

from headrace.engine.gpu.attention.paged_states import PagedStates
from headrace.engine.torch.device import current_device, device_copy
from headrace.engine.torch.sampling.torch_sampler import TorchSampler

CHECKED = [
    (PagedStates, ("allocate", "release", "clear", "read", "write")),
    (TorchSampler, ("likeliest", "choose", "sample", "logprobs", "in_host_memory", "fit")),
]
"""Methods that compute on a device, some of them with what torch puts on the current one."""
Note = Callable[[str, bool], None]
"""Takes the name of what needs a device, and whether there was a current one."""


class CurrentDevice(threading.local):
    """The device of this thread; None in a new one."""

    device: torch.device | None = None


def watch(patch: pytest.MonkeyPatch, note: Note) -> None:
    """Has every launch of a kernel, every copy to a device and every checked method say under which device it runs."""
    current = CurrentDevice()

    @contextlib.contextmanager
    def entered(device: torch.device) -> Iterator[None]:
        before, current.device = current.device, device
        try:
            yield
        finally:
            current.device = before

    def checked(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*operands: Any, **options: Any) -> Any:
            note(name, current.device is not None)
            return function(*operands, **options)

        return call

    patch.setitem(current_device.ENTERED, "cpu", entered)
    patch.setattr(interpreter.GridExecutor, "__call__", checked("launch", interpreter.GridExecutor.__call__))
    patch.setattr(device_copy, "torch", SimpleNamespace(from_numpy=checked("copy", torch.from_numpy)))
    for owner, names in CHECKED:
        for name in names:
            patch.setattr(owner, name, checked(name, getattr(owner, name)))


def refuse(name: str, is_current: bool) -> None:
    """Raises AssertionError for what runs without a current device."""
    assert is_current, f"{name} without a current device"


def prepare(path: str) -> None:
    """Has a follower note what it does in a file, one line each. It must not fail, which would end its first rank."""
    patch = pytest.MonkeyPatch()
    repair_products(patch)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(name: str, is_current: bool) -> None:
        os.write(file, f"{name} {is_current}\n".encode())

    watch(patch, write)


def read_notes(path: Path) -> set[str]:
    """Returns the different lines that followers have written."""
    return set(path.read_text().splitlines())
