"""Rows are adjusted together as each would be alone, in a number of operations that no row adds to."""

from typing import Any

import pytest
import torch
from tests.libs.engine.engine_running import request
from torch.utils._python_dispatch import TorchDispatchMode

from headrace.engine.batching.sequence import Sequence
from headrace.engine.torch.sampling.adjusted_logits import adjust

ADJUSTED: list[dict[str, Any]] = [
    {"repetition_penalty": 1.3},
    {"frequency_penalty": 0.5, "presence_penalty": 0.25},
    {"logit_bias": {3: 2.0, 7: -1.0, 4: 0.5}},
    {"min_tokens": 5},
    {},
    {"repetition_penalty": 0.8, "frequency_penalty": -0.5, "logit_bias": {5: 100.0}, "min_tokens": 9},
]


class Operations(TorchDispatchMode):
    """Counts what torch computes."""

    count = 0

    def __torch_dispatch__(self, function: Any, types: Any, operands: Any = (), options: Any = None) -> Any:
        self.count += 1
        return function(*operands, **(options or {}))


def make_sequences(copies: int = 1) -> list[Sequence]:
    made = [request(str(row), (1, 2, 3), (4, 5, 5), seed=row, **kind) for row, kind in enumerate(ADJUSTED * copies)]
    return [Sequence(each, 0, each.sampling.seed or 0, frozenset({9, 11}), 1000) for each in made]


def make_logits(rows: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(rows, 40, generator=torch.Generator().manual_seed(3)).to(dtype) * 3


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rows_together_are_as_each_alone(dtype: torch.dtype) -> None:
    logits, sequences = make_logits(len(ADJUSTED), dtype), make_sequences()
    before = logits.clone()
    found = adjust(logits, sequences)
    assert torch.equal(logits, before)
    for row, sequence in enumerate(sequences):
        (alone,) = adjust(logits[row : row + 1], [sequence])
        assert torch.equal(found[row], alone)
        assert torch.equal(alone, before[row]) == (not ADJUSTED[row])


def test_what_is_banned_is_allowed_where_nothing_else_is_beside_rows_where_it_is_not() -> None:
    logits, sequences = make_logits(len(ADJUSTED)), make_sequences()
    logits[3], logits[3, 9] = -torch.inf, 1.0
    found = adjust(logits, sequences)
    assert torch.equal(found[3], logits[3])
    assert torch.isinf(found[5, [9, 11]]).all()


def test_more_rows_take_no_more_operations() -> None:
    counts = []
    for copies in (1, 8):
        logits, sequences = make_logits(len(ADJUSTED) * copies), make_sequences(copies)
        with Operations() as operations:
            adjust(logits, sequences)
        counts.append(operations.count)
    assert counts[0] == counts[1]
