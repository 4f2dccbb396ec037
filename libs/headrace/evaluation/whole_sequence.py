"""Runs a whole sequence in a single step, for the logits of all its tokens."""

from typing import Protocol

from headrace.engine.batching.sequence import Sequence, make_block_table
from headrace.engine.batching.step_plan import Chunk, StepPlan
from headrace.engine.contract.request import EngineRequest, SamplingParams
from headrace.engine.step.sampler import Logits
from headrace.engine.step.step_logits import StepLogits

BLOCK_SIZE = 16


class PlanRunner(Protocol):
    """Runner with a KV cache of blocks with `BLOCK_SIZE` tokens, numbered from 0."""

    def run(self, plan: StepPlan) -> StepLogits: ...


def run_whole(runner: PlanRunner, token_ids: tuple[int, ...]) -> Logits:
    """Returns fp32 [tokens - 1, vocabulary]: the model's logits after every token except the last."""
    sampling = SamplingParams(max_tokens=0, prompt_logprob_count=0)
    sequence = Sequence(EngineRequest("sequence", token_ids, sampling), 0, 0, frozenset(), len(token_ids))
    sequence.block_table = make_block_table(range(-(-len(token_ids) // BLOCK_SIZE)))
    return runner.run(StepPlan((Chunk(sequence, 0, len(token_ids)),))).values
