"""Memory that shows what a kernel touches, and kernels with a mistake in them."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import torch
from torch import Tensor

GUARD = 512
"""Numbers before and after each tensor. No kernel may touch them: NaN where it reads, -7 where it writes."""


def guard(tensor: Tensor) -> Tensor:
    """Copies a tensor between guards that make any sum they are part of NaN, or for integers wrong by far."""
    value = torch.nan if tensor.is_floating_point() else 93
    around = torch.full((tensor.numel() + 2 * GUARD,), value, dtype=tensor.dtype)
    inside = around[GUARD:-GUARD].view(tensor.shape)
    inside.copy_(tensor)
    return inside


def plant(module: ModuleType, folder: Path, right: str, wrong: str) -> ModuleType:
    """Loads a copy of a module with a mistake in it."""
    assert module.__file__ is not None
    source = Path(module.__file__).read_text()
    assert right in source
    path = folder / "planted.py"
    path.write_text(source.replace(right, wrong))
    spec = importlib.util.spec_from_file_location("planted", path)
    assert spec is not None
    assert spec.loader is not None
    planted = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up by name.
    sys.modules["planted"] = planted
    try:
        spec.loader.exec_module(planted)
    finally:
        del sys.modules["planted"]
    return planted
