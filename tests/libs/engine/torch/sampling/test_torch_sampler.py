"""The host waits for a device once for each call, and chooses the tokens that it would choose on a CPU."""

from typing import Any

import pytest
import torch
from tests.libs.engine.device_waits import DeviceWaits
from tests.libs.engine.engine_running import request

from headrace.engine.batching.sequence import Sequence
from headrace.engine.contract.reasoning_limit import ReasoningLimit
from headrace.engine.torch.sampling.torch_sampler import TorchSampler

KINDS: list[dict[str, Any]] = [
    {"temperature": 0},
    {"temperature": 1.0},
    {"temperature": 0.7, "top_k": 5, "top_p": 0.9},
    {"temperature": 1.2, "min_p": 0.05},
    {"temperature": 0, "repetition_penalty": 1.3, "frequency_penalty": 0.5},
    {"temperature": 0.9, "logit_bias": {3: 2.0, 7: -1.0}},
    {"temperature": 0, "min_tokens": 5},
    {"temperature": 1.0, "reasoning_limit": ReasoningLimit(2, (), (11, 12))},
]
LOGITS = torch.randn(len(KINDS), 40, generator=torch.Generator().manual_seed(3)) * 3


def make_sequences() -> list[Sequence]:
    made = [request(str(row), (1, 2, 3), (4, 5), seed=row, **kind) for row, kind in enumerate(KINDS)]
    return [Sequence(each, 0, each.sampling.seed or 0, frozenset({9}), 1000) for each in made]


def test_one_wait_brings_the_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    sampler, sequences = TorchSampler(), make_sequences()
    best, peaks = sampler.likeliest(LOGITS)
    expected = [sampler.sample(LOGITS, sequences), sampler.sample(LOGITS, sequences, best)]
    before = LOGITS.clone()
    waits = DeviceWaits(monkeypatch)
    assert sampler.likeliest(LOGITS) == (best, peaks)
    assert waits.take() == {"tolist": 1}
    assert sampler.sample(LOGITS, sequences) == expected[0]
    assert waits.take() == {"tolist": 1}
    assert sampler.sample(LOGITS, sequences, best) == expected[1]
    assert waits.take() == {"tolist": 1}
    assert sampler.sample(LOGITS[:1], sequences[:1], best[:1]) == best[:1]
    assert waits.take() == {}
    assert torch.equal(LOGITS, before)


def test_a_peak_that_is_no_number_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    DeviceWaits(monkeypatch)
    logits = LOGITS.clone()
    logits[1, 5] = torch.nan
    _, peaks = TorchSampler().likeliest(logits)
    assert [peak != peak for peak in peaks] == [row == 1 for row in range(len(KINDS))]
