"""The comparison by which determinism is tested can fail: where one operation's last bit depends on how many rows there
are, the same request in other batches has other log-probabilities. The fault is planted, so that it is there on every
processor."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from tests.libs.engine.engine_running import engine_config, finish, request
from tests.libs.engine.needed_kernels import needs_kernels
from tests.libs.engine.tiny_models import make_prompts
from torch import Tensor

from headrace.demo_model import CHECKPOINT
from headrace.engine.batching.step_plan import StepPlan
from headrace.engine.cpu.runner import CpuRunner
from headrace.engine.loading.load_text_engine import load_text_engine
from headrace.engine.step.step_logits import LogitRows, StepLogits
from headrace.engine.torch.attention.kernel_attention import KernelPagedAttention
from headrace.engine.torch.operators.kernel_linear import KernelLinear
from headrace.engine.torch.operators.kernel_norm import KernelNorm
from headrace.engine.torch.operators.kernel_operators import KernelOperators

pytestmark = needs_kernels

PROMPTS = make_prompts((33, 90, 7, 150, 61, 20, 48))
BATCHES: dict[str, dict[str, Any]] = {
    "alone": {},
    "together": {},
    "small chunks": {"max_step_token_count": 16},
}
FAULTS: dict[str, tuple[type, str]] = {
    "product": (KernelLinear, "__call__"),
    "product with residual": (KernelLinear, "add_to_residual"),
    "norm": (KernelNorm, "__call__"),
    "gate": (KernelOperators, "gate"),
    "attention": (KernelPagedAttention, "attend"),
}
FEW_ROWS = 4


def plant(monkeypatch: pytest.MonkeyPatch, where: type, name: str) -> None:
    """Makes an operation give the next larger numbers where there are more than a few rows."""
    right: Callable[..., Tensor] = getattr(where, name)

    def wrong(*arguments: Any, **settings: Any) -> Tensor:
        found = right(*arguments, **settings)
        return found if len(found) <= FEW_ROWS else torch.nextafter(found, torch.tensor(torch.inf))

    monkeypatch.setattr(where, name, wrong)


def logprobs(circumstances: str, kernels: str = "torch") -> Sequence[object]:
    """Log-probabilities of the first request's output, to the last bit."""
    settings = {"max_step_token_count": 512} | BATCHES[circumstances]
    engine = load_text_engine(
        CHECKPOINT,
        engine_config(kernels=kernels, block_count=128, thread_count=1, prefix_cache=False, **settings),
    )
    for index, prompt in enumerate(PROMPTS if circumstances == "together" else PROMPTS[:1]):
        engine.add(request(str(index), prompt, max_tokens=24, temperature=0.0, logprob_count=2, ignore_eos=True))
    found = [delta.logprobs for delta in finish(engine)["0"]]
    engine.close()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("kernels", ["auto", "torch"])
def test_with_what_guarantees_it_all_are_equal(kernels: str) -> None:
    assert logprobs("alone", kernels) == logprobs("together", kernels) == logprobs("small chunks", kernels)


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_last_bit_that_depends_on_the_batch_is_seen(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, *FAULTS[fault])
    alone = logprobs("alone")
    assert any(logprobs(other) != alone for other in ("together", "small chunks"))


def test_it_is_seen_behind_the_fused_kernels_too(monkeypatch: pytest.MonkeyPatch) -> None:
    right = CpuRunner.run

    def wrong(runner: CpuRunner, plan: StepPlan) -> StepLogits:
        """A decoder whose head is a bit off where several rows are wanted."""
        scale = 1 + 1e-6 * (len(LogitRows.of(plan.chunks).rows) > 1)
        runner._decoder._model.embedding_scale = scale
        return right(runner, plan)

    monkeypatch.setattr(CpuRunner, "run", wrong)
    assert logprobs("together", "auto") != logprobs("alone", "auto")
