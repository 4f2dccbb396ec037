"""The comparison by which determinism is tested can fail: with ordinary matrix products in place of the row-invariant
ones, the same request in other company has other log-probabilities."""

from collections.abc import Callable

import pytest
import torch
from engine_running import finish, request
from tiny_models import make_prompts
from torch import Tensor
from torch.nn import functional

from headrace.demo_model import CHECKPOINT
from headrace.engine.attention import gather
from headrace.engine.engine_config import EngineConfig
from headrace.engine.layers import gated_mlp, linear
from headrace.engine.text_engine import TextEngine

PROMPTS = make_prompts((33, 90, 7, 150, 61, 20, 48))
COMPANY: dict[str, dict[str, object]] = {
    "alone": {},
    "together": {},
    "small chunks": {"max_step_token_count": 16},
}


def plain_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one would write who had not thought of it."""
    for module in (linear, gated_mlp):
        if hasattr(module, "has_onednn"):
            monkeypatch.setattr(module, "has_onednn", lambda weight: False)
    monkeypatch.setattr(
        linear.DenseLinear, "__call__", lambda self, inputs: functional.linear(inputs, self._weight, self._bias)
    )


def plain_attention(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many rows as there are queries, and one sum over all keys."""

    def weigh(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor, scoring: gather.Scoring) -> Tensor:
        seen = mask[:, : queries.shape[1]]
        return torch.bmm(torch.softmax(scoring(queries, keys, seen), dim=-1), values)

    monkeypatch.setattr(gather, "_weigh", weigh)


def logprobs(circumstances: str) -> list[object]:
    """Of the first request's output, to the last bit."""
    settings = {"max_step_token_count": 512} | COMPANY[circumstances]
    engine = TextEngine.load(
        CHECKPOINT,
        EngineConfig(kernels="torch", block_count=128, thread_count=1, prefix_cache=False, **settings),  # type: ignore[arg-type]
    )
    for index, prompt in enumerate(PROMPTS if circumstances == "together" else PROMPTS[:1]):
        engine.add(request(str(index), prompt, max_tokens=24, temperature=0.0, logprob_count=2, ignore_eos=True))
    found = [delta.logprobs for delta in finish(engine)["0"]]
    engine.close()
    return found


def test_with_what_guarantees_it_all_are_equal() -> None:
    assert logprobs("alone") == logprobs("together") == logprobs("small chunks")


@pytest.mark.parametrize("mode", [plain_products, plain_attention])
def test_without_it_they_differ(mode: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    product = linear_product if mode is plain_products else batched_product
    if is_row_invariant(product):
        pytest.skip(
            "this machine's matrix product gives the same bits for any number of rows; to run it: another processor"
        )
    mode(monkeypatch)
    alone = logprobs("alone")
    assert any(logprobs(other) != alone for other in ("together", "small chunks"))


def linear_product(inputs: Tensor) -> Tensor:
    weight = torch.randn(640, inputs.shape[1], generator=torch.Generator().manual_seed(1))
    return functional.linear(inputs, weight)


def batched_product(inputs: Tensor) -> Tensor:
    """As of attention weights and values."""
    values = torch.randn(4, inputs.shape[1], 32, generator=torch.Generator().manual_seed(1))
    return torch.bmm(inputs.expand(4, -1, -1), values)[0]


def is_row_invariant(product: Callable[[Tensor], Tensor]) -> bool:
    """Whether no difference shows between few rows and many."""
    inputs = torch.randn(33, 256, generator=torch.Generator().manual_seed(2))
    whole = product(inputs)
    return all(torch.equal(product(inputs[:rows]), whole[:rows]) for rows in (1, 2, 3, 7, 16))
