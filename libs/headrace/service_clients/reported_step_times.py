"""Times of a worker's steps, out of its status."""

from headrace.domain.step_times import StepTimes
from headrace.v1.worker_pb2 import WorkerStatus


def step_times_of(status: WorkerStatus) -> StepTimes | None:
    """Returns the times that a worker fitted to its steps. None: it has run too few, or is of an earlier release."""
    if not status.HasField("step_times"):
        return None
    times = status.step_times
    return StepTimes(
        times.base_seconds, times.prompt_token_seconds, times.sequence_seconds, times.context_token_seconds
    )
