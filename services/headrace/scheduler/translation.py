"""Converts messages to what the scheduler keeps, and what it decides to messages and errors."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headrace.errors import HeadraceError, Overloaded, Unavailable
from headrace.errors.status import from_status, to_status
from headrace.kv.held_prefix import HeldPrefix
from headrace.kv.prompt import Prompt
from headrace.scheduler.core.decisions import Reason, Reject
from headrace.scheduler.core.demand.demand import Demand
from headrace.scheduler.core.events import Settled
from headrace.scheduler.core.explanation import Line
from headrace.scheduler.core.fleet.candidate import Candidate
from headrace.scheduler.core.fleet.worker import Worker, WorkerReport
from headrace.scheduler.core.member import Member
from headrace.scheduler.core.queueing.block_holder import BlockHolder
from headrace.scheduler.core.queueing.queue_status import QueueStatus
from headrace.scheduler.core.queueing.ticket import Ticket
from headrace.scheduler.core.queueing.urgency import Urgency
from headrace.scheduler.core.queueing.waiter import Answer, Order, Place
from headrace.service_clients.reported_step_times import step_times_of
from headrace.v1 import scheduler_pb2 as pb
from headrace.v1.generation_pb2 import PriorityClass
from headrace.v1.worker_pb2 import WORKER_ROLE_PREFILL, BatchMember, DispatchResponse, PrefillSource, WorkerStatus

URGENCIES: Mapping[int, Urgency] = {
    PriorityClass.PRIORITY_CLASS_REALTIME: Urgency.REALTIME,
    PriorityClass.PRIORITY_CLASS_INTERACTIVE: Urgency.INTERACTIVE,
    PriorityClass.PRIORITY_CLASS_UNSPECIFIED: Urgency.DEFAULT,
    PriorityClass.PRIORITY_CLASS_BATCH: Urgency.BATCH,
}


@dataclass(frozen=True, slots=True)
class DispatchAnswer:
    """Answer of a worker to a batch."""

    report: WorkerReport
    refusals: list[HeadraceError | None]
    """Error for each member in order, or None where the worker took it."""


def to_ticket(request: pb.Submission, held: Mapping[str, HeldPrefix], now: float) -> Ticket:
    """Converts a submission that arrives `now`. `held`: leading KV blocks of the prompt that each worker has, by worker
    id."""
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
        left=_to_block_holder(request.left_place) if request.HasField("left_place") else None,
        first_token_seconds=request.first_token_duration.ToTimedelta().total_seconds() if wants_soon else None,
    )


def _to_block_holder(place: pb.Place) -> BlockHolder:
    return BlockHolder(place.worker_id, place.worker_address)


def to_order(request: pb.Submission) -> Order:
    """Converts the part of a submission that workers read."""
    generation = request.generation
    return Order(generation.SerializeToString(), request.priority_class, generation.traceparent)


def to_prompt(generation: pb.Generation) -> Prompt:
    """Converts what decides which KV blocks a prompt has."""
    token_ids = tuple(generation.prompt_token_ids)
    return Prompt(generation.model, token_ids, generation.cache_salt, generation.adapter)


def to_member(member: Member, order: Order, now: float) -> BatchMember:
    """Converts a member and what its worker reads of the request; `now` in seconds of the scheduler's clock."""
    message = BatchMember(priority_class=PriorityClass.ValueType(order.priority_class))
    message.generation.MergeFromString(order.generation)
    message.remaining_duration.FromNanoseconds(max(0, int((member.ticket.deadline - now) * 1e9)))
    if (prefill := member.prefill).worker_id:
        source = PrefillSource(worker_id=prefill.worker_id, address=prefill.address, held_only=prefill.held_only)
        message.prefill_source.CopyFrom(source)
    return message


def to_answer(response: DispatchResponse) -> DispatchAnswer:
    """Converts the answer of a worker."""
    refusals = [from_status(outcome) if outcome.code else None for outcome in response.outcomes]
    return DispatchAnswer(to_report(response.status), refusals)


def to_report(status: WorkerStatus) -> WorkerReport:
    """Converts the status of a worker."""
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
        computed_token_count=status.computed_token_count,
        prefill_rate=status.prefill_rate,
        step_seconds=status.step_seconds,
        step_times=step_times_of(status),
        step_token_limit=status.step_token_limit,
        max_step_seconds=status.max_step_seconds,
        hourly_price=status.hourly_price,
        wait_seconds=status.predicted_wait_seconds,
        draining=status.draining,
        fence=status.fence,
        is_prefill=status.role == WORKER_ROLE_PREFILL,
        block_layout=status.block_layout,
        block_bytes=status.block_byte_count,
        transfer_rate=status.transfer_rate,
        disk_rate=status.disk_rate,
    )


def to_settled(used: pb.Settlement) -> Settled:
    """Converts what a request has used."""
    known = used.HasField("first_token_duration")
    first_token_seconds = used.first_token_duration.ToNanoseconds() / 1e9 if known else None
    return Settled(used.model, used.request_id, used.output_token_count, first_token_seconds)


def to_error(rejection: Reject) -> HeadraceError:
    """Converts a rejection to the error that its waiter gets."""
    model, seconds = rejection.ticket.model, round(rejection.retry_after, 3)
    details = {"reason": rejection.reason.value}
    match rejection.reason:
        case Reason.QUEUE_FULL:
            message = f"the queue of {model} is full; there should be room in {seconds} s"
            return Overloaded(message, stage="queue", retry_after=seconds, details=details)
        case Reason.DISPLACED:
            message = f"more urgent requests took the place in the queue of {model}; try again in {seconds} s"
            return Overloaded(message, stage="queue", retry_after=seconds, details=details)
        case Reason.LATE:
            message = f"{model} has too much to do to answer in time; try again in {seconds} s"
            return Overloaded(message, stage="queue", retry_after=seconds, details=details)
        case Reason.NO_WORKER:
            message = f"no worker serves {model} at the moment"
            return Unavailable(message, stage="schedule", retry_after=seconds, details=details)
        case Reason.NO_ADAPTER:
            message = f"no worker of {model} has the adapter {rejection.ticket.adapter} at the moment"
            return Unavailable(message, stage="schedule", retry_after=seconds, details=details)
        case Reason.NOT_LEADING:
            return Unavailable(f"another scheduler leads {model} now", stage="schedule", details=details)


def to_schedule_response(answers: Iterable[Answer], sign: pb.SchedulerSign | None) -> pb.ScheduleResponse:
    """Converts answers, and the heartbeat if one is due, to one message."""
    response = pb.ScheduleResponse()
    for answer in answers:
        _add_answer(response, answer)
    if sign is not None:
        response.events.add(sign=sign)
    return response


def to_sign(scheduler_id: str, queues: Iterable[QueueStatus]) -> pb.SchedulerSign:
    """Makes a heartbeat, which reports the lengths of the queues."""
    return pb.SchedulerSign(scheduler_id=scheduler_id, queues=to_queues(queues))


def to_queues(queues: Iterable[QueueStatus]) -> list[pb.ModelQueue]:
    """Converts the queues of a scheduler."""
    return [
        pb.ModelQueue(
            model=queue.model,
            waiting_count=queue.waiting_count,
            window_seconds=queue.window_seconds,
            expected_wait_seconds=queue.expected_wait_seconds,
            fence=queue.fence,
            wanted_worker_count=queue.wanted_worker_count,
        )
        for queue in queues
    ]


def to_model_demand(model: str, demand: Demand, fence: int, now: float) -> pb.ModelDemand:
    """Converts the demand for workers of a model; `now` in seconds of the scheduler's clock."""
    load = demand.load
    return pb.ModelDemand(
        model=model,
        wanted_worker_count=demand.wanted,
        worker_count=load.worker_count if load else 0,
        unsure_worker_count=load.unsure_count if load else 0,
        start_seconds=demand.start_seconds,
        fence=fence,
        needs=[
            pb.WorkerNeed(signal=need.signal, worker_count=demand.count_for(need), text=need.text)
            for need in demand.needs
        ],
        decisions=[
            pb.ScalingDecision(
                age_seconds=now - decision.time,
                former_count=decision.before,
                new_count=decision.after,
                signal=decision.signal,
                reason=decision.reason,
                otherwise=decision.otherwise,
            )
            for decision in demand.decisions
        ],
    )


def to_worker_view(worker: Worker, model: str, now: float) -> pb.WorkerView:
    """Converts a worker as the scheduler sees it; `now` in seconds of the scheduler's clock."""
    return pb.WorkerView(
        worker_id=worker.worker_id,
        model=model,
        credit_count=worker.free_count,
        silence_seconds=now - worker.last_heard,
    )


def to_journal_entry(line: Line) -> pb.JournalEntry:
    """Converts a line of an explanation."""
    views = [_to_candidate_view(candidate) for candidate in line.candidates]
    return pb.JournalEntry(age_seconds=line.age_seconds, text=line.text, candidates=views)


def _to_candidate_view(candidate: Candidate) -> pb.CandidateView:
    return pb.CandidateView(
        worker_id=candidate.worker_id,
        load=candidate.load,
        held_block_count=candidate.held.in_memory,
        kept_block_count=candidate.held.on_disk,
        first_token_seconds=candidate.first_token_seconds,
        price=candidate.price,
        remark=candidate.remark,
    )


def _add_answer(response: pb.ScheduleResponse, answer: Answer) -> None:
    match answer.outcome:
        case Place() as place:
            placement = response.events.add().placement
            placement.request_id, placement.attempt = answer.request_id, answer.attempt
            placement.place.worker_id = place.worker_id
            placement.place.worker_address = place.worker_address
            placement.place.worker_epoch = place.worker_epoch
            placement.place.queue_seconds = place.queue_seconds
        case error:
            refusal = pb.Refusal(request_id=answer.request_id, attempt=answer.attempt, error=to_status(error))
            response.events.add(refusal=refusal)
