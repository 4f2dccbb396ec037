"""The device that these tests launch kernels on: a GPU where there is one, else the CPU, in the interpreter."""

import os
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any

import torch
from torch import Tensor

IS_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
HAS_GPU = not IS_INTERPRETED and torch.cuda.is_available()
DEVICE = torch.device("cuda" if HAS_GPU else "cpu")
FP32_ERROR = 1e-5 if HAS_GPU else 2e-6
"""Error of a sum in fp32: a GPU's exponentials and quotients are approximate."""
LAUNCHERS = (
    "attend_decodes",
    "attend_spans",
    "draw_tokens",
    "gate_grouped",
    "gate_rows",
    "multiply",
    "multiply_grouped",
    "normalize",
    "rotate_and_store",
    "sort_by_expert",
)
"""Functions that launch kernels, by the names that tests import."""


def launched_on(device: torch.device, launcher: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a launcher that takes tensors of the CPU to a device, and its results back, those in place too: oracles
    stay on the CPU."""

    def launch(*operands: Any, **options: Any) -> Any:
        moved: list[tuple[Tensor, Tensor]] = []
        there = [_move(each, device, moved) for each in operands]
        result = launcher(*there, **{name: _move(each, device, moved) for name, each in options.items()})
        for here, copy in moved:
            here.copy_(copy)
        return _move(result, torch.device("cpu"), [])

    return launch


def _move(value: Any, device: torch.device, moved: list[tuple[Tensor, Tensor]]) -> Any:
    if isinstance(value, Tensor):
        copy = value.detach().clone() if value.device == device else value.to(device)
        moved.append((value, copy))
        return copy
    if is_dataclass(value) and not isinstance(value, type):
        parts = {each.name: _move(getattr(value, each.name), device, moved) for each in fields(value)}
        return replace(value, **parts)
    return value
