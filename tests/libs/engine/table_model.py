"""A model whose next-token distribution depends on the last token alone, so that every law can be written down."""

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.engine.batching.drafter import Drafts
from headrace.engine.batching.sequence import Sequence
from headrace.engine.batching.step_plan import StepPlan
from headrace.engine.contract.engine import EngineSpec
from headrace.engine.step.step_logits import StepLogits
from headrace.engine.torch.sampling.torch_sampler import TorchSampler

VOCAB_SIZE = 8
PARTS = 16
"""Probabilities of the tables are integers of parts."""


def make_table(seed: int) -> NDArray[np.float64]:
    """[last token, next token]: each row sums to 1, with some zeros in it."""
    rng = np.random.default_rng(seed)
    return rng.multinomial(PARTS, rng.dirichlet(np.full(VOCAB_SIZE, 0.8), VOCAB_SIZE)) / PARTS


class TableRunner:
    """Stands for a TorchRunner."""

    def __init__(self, table: NDArray[np.float64]) -> None:
        self.sampler = TorchSampler()
        with np.errstate(divide="ignore"):
            self._logits = torch.from_numpy(np.maximum(np.log(table), -1e9)).float()

    def run(self, plan: StepPlan) -> StepLogits:
        chunks = [chunk for chunk in plan.chunks if chunk.is_sampled]
        last = [[chunk.sequence.token_ids[-1], *chunk.draft] for chunk in chunks]
        rows = [token_id for tokens in last for token_id in tokens]
        return StepLogits(self._logits[rows], tuple(chunks), ())

    def clear(self, blocks: list[int]) -> None:
        """Nothing is kept."""

    def sleep(self) -> None:
        """Nothing is held."""

    def wake(self) -> None:
        """Nothing was lost."""


class FixedDrafter:
    """Drafts the same for everyone."""

    def __init__(self, guesses: tuple[int, ...]) -> None:
        self._guesses = guesses

    def may_pay(self, row_count: int, decode_count: int) -> bool:
        return True

    def may_draft(self, sequence: Sequence) -> bool:
        return True

    def propose(self, limits: Mapping[Sequence, int]) -> Drafts:
        return {sequence: self._guesses[:limit] for sequence, limit in limits.items()}

    def observe(self, sequence: Sequence, accepted_count: int) -> None:
        """Learns nothing."""

    def forget(self, sequence: Sequence) -> None:
        """Knows nothing."""

    def observe_step(self, token_count: int, seconds: float) -> None:
        """Does not care."""


def make_spec(running: int) -> EngineSpec:
    return EngineSpec(
        "table",
        VOCAB_SIZE,
        4096,
        running,
        1 << 16,
        16,
        8 * running,
        frozenset(),
        device="cpu",
        precision="",
        parameter_count=0,
    )
