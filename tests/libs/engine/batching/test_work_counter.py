"""The work of a plan is counted as a reader of the model's code would count it."""

from headrace.engine.batching.sequence import Sequence
from headrace.engine.batching.step_plan import Chunk, StepPlan
from headrace.engine.batching.work_counter import WorkCounter
from headrace.engine.contract.model_cost import ModelCost, StepWork
from headrace.engine.contract.request import EngineRequest, SamplingParams


def sequence_of(count: int) -> Sequence:
    request = EngineRequest("r", tuple(range(count)), SamplingParams())
    return Sequence(request=request, arrival=0, seed=0, stop_token_ids=frozenset(), max_model_length=1000, evicts=False)


def counted(window: int | None, *bounds: tuple[int, int]) -> StepWork:
    counter = WorkCounter(window)
    for start, end in bounds:
        counter.count(StepPlan((Chunk(sequence_of(end), start, end),)))
    return counter.work


def test_a_prompt_in_one_chunk_or_several_has_the_same_pairs() -> None:
    """Each query sees itself and all before it: 1 + 2 + … + 10 pairs."""
    whole, halves = counted(None, (0, 10)), counted(None, (0, 5), (5, 10))
    assert abs(whole.pair_count - 55) <= 5
    assert abs(halves.pair_count - 55) <= 5
    assert (whole.token_count, whole.step_count, whole.read_token_count) == (10, 1, 10)
    assert (halves.token_count, halves.step_count, halves.read_token_count) == (10, 2, 15)


def test_a_decode_reads_its_whole_context_or_its_window() -> None:
    assert counted(None, (99, 100)).read_token_count == counted(None, (99, 100)).pair_count == 100
    assert counted(16, (99, 100)).read_token_count == counted(16, (99, 100)).pair_count == 16


def test_an_empty_plan_is_no_work() -> None:
    counter = WorkCounter(None)
    counter.count(StepPlan(()))
    assert counter.work == StepWork()


def test_weights_count_once_a_step_and_products_once_a_token() -> None:
    cost = ModelCost(step_bytes=1000, token_bytes=10, token_operations=7, pair_operations=2)
    work = StepWork(step_count=2, token_count=5, read_token_count=9, pair_count=30)
    assert cost.moved_bytes(work) == 2 * 1000 + (9 + 5) * 10
    assert cost.operations(work) == 5 * 7 + 30 * 2
