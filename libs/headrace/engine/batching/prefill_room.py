"""Room that a step has for prompts beside sequences that wait for their next token.

It is stall-free batching (Agrawal et al., Sarathi-Serve, OSDI 2024) with a budget in seconds instead of tokens."""

from headrace.domain.step_times import StepTimes
from headrace.engine.batching.step_plan import PlanBuilder
from headrace.engine.contract.engine import EngineSpec
from headrace.engine.contract.request import Urgency


def hold_back(builder: PlanBuilder, spec: EngineSpec, times: StepTimes) -> int:
    """Takes from the budget of a plan, which has all decodes, what would make the step too long for one of them.
    Returns the tokens taken. Sequences of the batch class wait as long as it takes."""
    decodes = builder.chunks
    if not spec.max_step_seconds or all(sequence.request.urgency is Urgency.BATCH for sequence in decodes):
        return 0
    context_count = sum(chunk.end for chunk in decodes.values())
    room = times.prompt_tokens_within(spec.max_step_seconds, len(decodes), context_count)
    held_back = max(0, builder.budget_left - int(min(builder.budget_left, max(room, spec.block_size))))
    builder.budget_left -= held_back
    return held_back
