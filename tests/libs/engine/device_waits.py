"""Counts where the engine's code on torch waits for a device, as if the CPU were one."""

import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from headrace.engine.torch.device import device_copy, host_copy
from headrace.engine.torch.sampling import torch_sampler

READS = ("tolist", "item", "cpu", "numpy", "__bool__", "__int__", "__float__", "__index__")
"""Methods of a tensor that bring numbers to the host."""
ROOMS = ("torch", "gpu", "triton", "parallel", "engines")
OURS = tuple(f"headrace/engine/{room}/" for room in ROOMS)
COPIES = (device_copy.__file__, host_copy.__file__)


class DeviceWaits:
    """Calls that would make the host wait for a GPU, by their names: reads of tensors, copies to the device other than
    through `to_device`, and indices in Python's lists, which are copied too."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.counts: Counter[str] = Counter()
        for name in READS:
            patch.setattr(Tensor, name, self._noted(name, getattr(Tensor, name), lambda _: True))
        for name in ("__getitem__", "__setitem__"):
            patch.setattr(Tensor, name, self._noted(name, getattr(Tensor, name), _has_a_list))
        patch.setattr(Tensor, "to", self._noted("to", Tensor.to, _names_a_device))
        patch.setattr(torch, "tensor", self._noted("tensor", torch.tensor, _names_a_device))
        patch.setattr(torch_sampler, "_is_on_host", lambda _: False)

    def take(self) -> dict[str, int]:
        """Returns the counts since the last call."""
        taken, self.counts = dict(self.counts), Counter()
        return taken

    def _noted(
        self, name: str, function: Callable[..., Any], waits: Callable[[tuple[Any, ...]], bool]
    ) -> Callable[..., Any]:
        def call(*operands: Any, **options: Any) -> Any:
            caller = sys._getframe(1).f_code.co_filename
            is_ours = any(part in caller for part in OURS) and caller not in COPIES
            if is_ours and waits((*operands[1:], *options.values())):
                self.counts[name] += 1
            return function(*operands, **options)

        return call


def _has_a_list(operands: tuple[Any, ...]) -> bool:
    places = operands[0] if isinstance(operands[0], tuple) else operands[:1]
    return any(isinstance(each, list) for each in places)


def _names_a_device(operands: tuple[Any, ...]) -> bool:
    return any(isinstance(each, torch.device) for each in operands)
