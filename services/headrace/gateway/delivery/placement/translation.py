"""Requests for places, to messages."""

from collections.abc import Sequence

from headrace.gateway.delivery.placement.placed_worker import PlacedWorker
from headrace.gateway.fleet.worker_facts import WorkerFacts
from headrace.gateway.job.sequence_request import SequenceRequest
from headrace.gateway.job.translation import to_sampling_params
from headrace.v1.scheduler_pb2 import Generation, Place, Settlement, Submission
from headrace.v1.worker_pb2 import BatchMember, PrefillSource


def to_submission(
    request: SequenceRequest,
    attempt: int,
    received: Sequence[int],
    excluded_worker_ids: Sequence[str],
    gateway_id: str,
    left: PlacedWorker | None = None,
) -> Submission:
    """Returns the request for a place. `received`: output tokens received so far; `left`: worker that gave the request
    up."""
    submission = Submission(
        generation=Generation(
            request_id=request.request_id,
            attempt=attempt,
            model=request.served_model,
            adapter=request.model.model if request.model.parent else "",
            prompt_token_ids=request.prompt_token_ids,
            output_token_ids=received,
            sampling_params=to_sampling_params(request.sampling),
            gateway_id=gateway_id,
            traceparent=request.envelope.traceparent,
            cache_salt=request.block_salt,
            embeds=request.embeds,
        ),
        priority_class=request.priority_class,
        tenant=request.envelope.tenant.name,
        tenant_weight=request.envelope.tenant.weight,
        excluded_worker_ids=excluded_worker_ids,
        left_place=None if left is None else Place(worker_id=left.worker_id, worker_address=left.address),
    )
    if (seconds := request.first_token_seconds()) is not None:
        submission.first_token_duration.FromNanoseconds(int(seconds * 1e9))
    return submission


def to_settlement(
    request: SequenceRequest, output_token_count: int, first_token_seconds: float | None = None
) -> Settlement:
    """Returns what a request has used of its model. `first_token_seconds`: time that its first worker took to the first
    token, if that is known."""
    used = Settlement(request_id=request.request_id, model=request.served_model, output_token_count=output_token_count)
    if first_token_seconds is not None:
        used.first_token_duration.FromNanoseconds(int(first_token_seconds * 1e9))
    return used


def to_batch_member(submission: Submission, remaining_seconds: float) -> BatchMember:
    """Returns the batch member that goes to a worker without a scheduler."""
    member = BatchMember(generation=submission.generation, priority_class=submission.priority_class)
    if submission.HasField("left_place"):
        left = submission.left_place
        source = PrefillSource(worker_id=left.worker_id, address=left.worker_address, held_only=True)
        member.prefill_source.CopyFrom(source)
    member.remaining_duration.FromNanoseconds(int(remaining_seconds * 1e9))
    return member


def to_place(worker: WorkerFacts, epoch: int) -> Place:
    """Returns the place on a worker, in the incarnation with this epoch."""
    return Place(worker_id=worker.worker_id, worker_address=worker.address, worker_epoch=epoch)
