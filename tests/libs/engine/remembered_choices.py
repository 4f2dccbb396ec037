"""Choices among the kernels, measured once for all engines of a run whose layers have the same shapes.

Loading a tiny model takes less than measuring its products on each instruction set; and all of them give the same bits.
"""

from collections.abc import Sequence
from typing import Any

import pytest

from headrace.engine.cpu import load
from headrace.engine.kernels.choice.kernel_choice import KernelChoice, choose_kernels, contenders
from headrace.engine.kernels.context import KernelContext
from headrace.engine.kernels.packed_weight import PackedWeight


def remember_choices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has engines take the choice of an earlier one of theirs."""
    known: dict[Any, KernelChoice] = {}

    def choose(context: KernelContext, weights: Sequence[PackedWeight], *, exact: bool) -> KernelChoice:
        key = (context.thread_count, tuple(contenders()), exact, tuple(map(shape_of, weights)))
        if key not in known:
            known[key] = choose_kernels(context, weights, exact=exact)
        return known[key]

    monkeypatch.setattr(load, "choose_kernels", choose)


def shape_of(weight: PackedWeight) -> tuple[object, ...]:
    """All that the time of a product depends on."""
    parts = (weight.bias is not None, weight.order is not None)
    return weight.storage, weight.out_size, weight.in_size, weight.group, parts
