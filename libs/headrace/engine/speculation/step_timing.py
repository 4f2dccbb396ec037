"""Measures a model's steps before its first request, so that the first draft tokens are already worth their price."""

import time
from collections.abc import Callable

from headrace.engine.batching.sequence import Sequence, make_block_table
from headrace.engine.batching.step_plan import Chunk, StepPlan
from headrace.engine.contract.request import EngineRequest, SamplingParams
from headrace.engine.step.runner import Runner

NEEDED = (1, 4, 8)
"""Row counts that are measured however long they take."""
FURTHER = (2, 16, 3, 6, 12, 24)
"""Row counts that are measured if there is time, in this order."""
PATIENCE = 0.1
"""Seconds after which no further measurement begins."""
PASS_COUNT = 4
"""Maximum number of measurements of each row count. The best one counts."""

Clock = Callable[[], float]


def time_steps(
    runner: Runner, block_size: int, block_count: int, max_rows: int, clock: Clock = time.perf_counter
) -> dict[int, float]:
    """Returns seconds by row count for an idle model: of steps that verify draft tokens, at the beginning of a text.

    Overwrites KV blocks, and clears them afterwards. Takes PATIENCE, or as long as one step of each row count in NEEDED
    and one more. Row counts beyond `max_rows` or the KV cache are left out.
    """
    most = min(max_rows, block_size * block_count)
    needed = [rows for rows in NEEDED if rows <= most]
    further = [rows for rows in FURTHER if rows <= most]
    blocks = list(range(-(-max([*needed, *further]) // block_size)))
    started = clock()
    _time_step(runner, blocks, needed[0], clock)
    found = {rows: _time_step(runner, blocks, rows, clock) for rows in needed}
    for rows in (further + needed) + (PASS_COUNT - 1) * (needed + further):
        if clock() - started > PATIENCE:
            break
        found[rows] = min(found.get(rows, float("inf")), _time_step(runner, blocks, rows, clock))
    runner.clear(blocks)
    return dict(sorted(found.items()))


def _time_step(runner: Runner, blocks: list[int], row_count: int, clock: Clock) -> float:
    """Returns the seconds of one step, with the choice of its tokens."""
    request = EngineRequest("timing", (0,), SamplingParams(max_tokens=row_count + 1, temperature=0))
    sequence = Sequence(request, 0, 0, frozenset(), row_count + 2)
    sequence.block_table = make_block_table(blocks)
    plan = StepPlan((Chunk(sequence, 0, 1, (0,) * (row_count - 1)),))
    started = clock()
    runner.sampler.likeliest(runner.run(plan).values)
    return clock() - started
