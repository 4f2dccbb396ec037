"""Messages to what the core knows, and its rejections to errors."""

from collections.abc import Mapping

from headrace.errors import HeadraceError, Overloaded, Unavailable
from headrace.scheduler.core.decisions import Reason, Reject
from headrace.scheduler.core.fleet.worker import WorkerReport
from headrace.scheduler.core.queueing.ticket import Ticket
from headrace.scheduler.core.queueing.urgency import Urgency
from headrace.v1.generation_pb2 import PriorityClass
from headrace.v1.scheduler_pb2 import Submission
from headrace.v1.worker_pb2 import WorkerStatus

URGENCIES: Mapping[int, Urgency] = {
    PriorityClass.PRIORITY_CLASS_REALTIME: Urgency.REALTIME,
    PriorityClass.PRIORITY_CLASS_INTERACTIVE: Urgency.INTERACTIVE,
    PriorityClass.PRIORITY_CLASS_UNSPECIFIED: Urgency.DEFAULT,
    PriorityClass.PRIORITY_CLASS_BATCH: Urgency.BATCH,
}


def to_ticket(request: Submission, held: Mapping[str, int], now: float) -> Ticket:
    """The ticket of a submission. `held`: leading KV blocks of the prompt that a worker holds, by worker id."""
    generation = request.generation
    given = len(generation.output_token_ids)
    wants_soon = request.HasField("first_token_duration")
    return Ticket(
        request_id=generation.request_id,
        attempt=generation.attempt,
        model=generation.model,
        tenant=request.tenant,
        arrival=now,
        deadline=now + request.remaining_duration.ToTimedelta().total_seconds(),
        prompt_token_count=len(generation.prompt_token_ids) + given,
        max_token_count=max(0, generation.sampling_params.max_token_count - given),
        urgency=URGENCIES.get(request.priority_class, Urgency.DEFAULT),
        weight=request.tenant_weight or 1.0,
        adapter=generation.adapter,
        resumes=bool(given or request.excluded_worker_ids),
        excluded=frozenset(request.excluded_worker_ids),
        held=held,
        first_token_seconds=request.first_token_duration.ToTimedelta().total_seconds() if wants_soon else None,
    )


def to_report(status: WorkerStatus) -> WorkerReport:
    """The report that a status is."""
    info = status.model_info
    return WorkerReport(
        worker_id=status.worker_id,
        epoch=status.epoch,
        version=status.version,
        model=info.model,
        credit_count=status.credit_count,
        open_count=status.open_request_count,
        address=status.address,
        adapters=frozenset(adapter.name for adapter in info.adapters),
        vocabulary_size=info.vocabulary_size,
        block_size=info.block_size,
        block_count=status.block_count,
        used_block_count=status.used_block_count,
        running_count=status.running_count,
        pausable_count=status.pausable_count,
        waiting_token_count=status.waiting_token_count,
        step_count=status.step_count,
        prefill_rate=status.prefill_rate,
        step_seconds=status.step_seconds,
        hourly_price=status.hourly_price,
        draining=status.draining,
        fence=status.fence,
    )


def to_error(rejection: Reject) -> HeadraceError:
    """The error that whoever waits is told."""
    model, seconds = rejection.ticket.model, round(rejection.retry_after, 3)
    details = {"reason": rejection.reason.value}
    match rejection.reason:
        case Reason.QUEUE_FULL:
            message = f"the queue of {model} is full; there should be room in {seconds} s"
            return Overloaded(message, stage="queue", retry_after=seconds, details=details)
        case Reason.DISPLACED:
            message = f"more urgent requests took the place in the queue of {model}; try again in {seconds} s"
            return Overloaded(message, stage="queue", retry_after=seconds, details=details)
        case Reason.NO_WORKER:
            message = f"no worker serves {model} at the moment"
            return Unavailable(message, stage="schedule", retry_after=seconds, details=details)
        case Reason.NO_ADAPTER:
            message = f"no worker of {model} has the adapter {rejection.ticket.adapter} at the moment"
            return Unavailable(message, stage="schedule", retry_after=seconds, details=details)
        case Reason.NOT_LEADING:
            return Unavailable(f"another scheduler leads {model} now", stage="schedule", details=details)
