"""Steps are measured at load with the model as it is, and leave nothing behind."""

import itertools

import numpy as np
import pytest
from tests.libs.engine.engine_running import engine_config, request, run
from tests.libs.engine.table_model import TableRunner, make_table

from headrace.demo_model import CHECKPOINT, DRAFT
from headrace.engine.batching.step_plan import StepPlan
from headrace.engine.loading.load_text_engine import load_text_engine
from headrace.engine.speculation.step_timing import FURTHER, NEEDED, PASS_COUNT, time_steps
from headrace.engine.step.step_logits import StepLogits


class SlowRunner(TableRunner):
    """Takes a second of a simulated clock per row, and more now and then."""

    def __init__(self) -> None:
        super().__init__(make_table(1))
        self.seconds = 0.0
        self.rows: list[int] = []
        self.cleared: list[int] = []
        self._delays = itertools.cycle((0.0, 0.5, 0.0, 3.0, 0.0))

    def clock(self) -> float:
        return self.seconds

    def run(self, plan: StepPlan) -> StepLogits:
        self.rows.append(plan.token_count)
        self.seconds += 1e-4 * (plan.token_count + next(self._delays))
        return super().run(plan)

    def clear(self, blocks: list[int]) -> None:
        self.cleared += blocks


def test_each_row_count_has_its_best_time() -> None:
    runner = SlowRunner()
    found = time_steps(runner, 16, 4, 512, runner.clock)
    assert list(found) == sorted({*NEEDED, *FURTHER})
    assert found == pytest.approx({rows: 1e-4 * rows for rows in found}, rel=0.51)
    assert runner.rows.count(1) == PASS_COUNT + 2
    assert runner.cleared == [0, 1]


def test_a_large_model_is_measured_where_it_is_needed() -> None:
    runner = SlowRunner()
    found = time_steps(runner, 16, 4, 512, lambda: 1e4 * runner.seconds)
    assert tuple(found) == NEEDED
    assert len(runner.rows) == len(NEEDED) + 1


def test_no_step_is_larger_than_the_engine_allows() -> None:
    runner = SlowRunner()
    assert max(time_steps(runner, 4, 1, 512, runner.clock)) == 4
    assert max(time_steps(runner, 16, 4, 6, runner.clock)) == 6


def test_an_engine_begins_as_if_nothing_had_been_computed() -> None:
    """Measured on the bundled model and its draft model."""
    made = load_text_engine(CHECKPOINT, engine_config(block_count=64, speculation="on", draft_folder=DRAFT))
    plain = load_text_engine(CHECKPOINT, engine_config(block_count=64))
    prompt = np.random.default_rng(1).integers(5, 2000, 40).tolist()
    for index in range(2):
        asked = request(str(index), prompt, max_tokens=30, temperature=0, ignore_eos=True)
        assert run(made, asked) == run(plain, asked)
    assert made.stats().prefix_hit_token_count == plain.stats().prefix_hit_token_count
    made.close()
    plain.close()
