"""The same tests run on a GPU, through launchers that take tensors there and back."""

from dataclasses import dataclass

import torch
from tests.libs.engine.triton.device import launched_on
from torch import Tensor


@dataclass(frozen=True)
class Pages:
    states: Tensor
    name: str = "pages"


def test_results_come_back_and_so_does_what_is_written_in_place() -> None:
    """A meta device would lose the numbers, so the device is a CPU, to which copies are made all the same."""
    seen: list[Tensor] = []

    def store(numbers: Tensor, pages: Pages, factor: float, *, bias: Tensor | None = None) -> Tensor:
        seen.extend([numbers, pages.states])
        pages.states.add_(numbers)
        return numbers * factor if bias is None else numbers * factor + bias

    numbers, pages = torch.ones(3), Pages(torch.zeros(3))
    found = launched_on(torch.device("cpu"), store)(numbers, pages, 2.0, bias=torch.ones(3))
    assert found.tolist() == [3.0] * 3
    assert pages.states.tolist() == [1.0] * 3
    assert all(each is not own for each, own in zip(seen, (numbers, pages.states), strict=True))
