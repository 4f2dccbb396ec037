"""Translates requests to messages, and shortens or joins messages."""

from collections.abc import Sequence

from headrace.gateway.fleet.worker_facts import WorkerFacts
from headrace.gateway.job.sequence_request import SequenceRequest
from headrace.gateway.job.translation import to_sampling_params
from headrace.gateway.timing.request_record import RequestRecord
from headrace.v1.generation_pb2 import WorkerTimings
from headrace.v1.scheduler_pb2 import Generation, Place, Settlement, Submission
from headrace.v1.worker_pb2 import BatchMember, TokenDelta


def to_submission(
    request: SequenceRequest,
    attempt: int,
    received: Sequence[int],
    excluded_worker_ids: Sequence[str],
    gateway_id: str,
) -> Submission:
    """Returns the request for a place. `received`: output tokens received so far."""
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
            cache_salt=request.envelope.tenant.name,
            embeds=request.embeds,
        ),
        priority_class=request.priority_class,
        tenant=request.envelope.tenant.name,
        tenant_weight=request.envelope.tenant.weight,
        excluded_worker_ids=excluded_worker_ids,
    )
    if (seconds := request.first_token_seconds()) is not None:
        submission.first_token_duration.FromNanoseconds(int(seconds * 1e9))
    return submission


def to_settlement(request: SequenceRequest, output_token_count: int) -> Settlement:
    """Returns what a request has used of its model."""
    return Settlement(request_id=request.request_id, model=request.served_model, output_token_count=output_token_count)


def to_batch_member(submission: Submission, remaining_seconds: float) -> BatchMember:
    """Returns the batch member that goes to a worker without a scheduler."""
    member = BatchMember(generation=submission.generation, priority_class=submission.priority_class)
    member.remaining_duration.FromNanoseconds(int(remaining_seconds * 1e9))
    return member


def to_place(worker: WorkerFacts, epoch: int) -> Place:
    """Returns the place on a worker, in the incarnation with this epoch."""
    return Place(worker_id=worker.worker_id, worker_address=worker.address, worker_epoch=epoch)


def without_known(delta: TokenDelta, known: int) -> TokenDelta:
    """Removes from a delta its part of the first `known` output tokens, which were received before, and the prompt's
    scores, which came with the first of them."""
    rest = TokenDelta()
    rest.CopyFrom(delta)
    overlap = max(0, known - delta.first_index)
    del rest.token_ids[:overlap], rest.logprobs[:overlap], rest.prompt_logprobs[:]
    rest.first_index = delta.first_index + overlap
    return rest


def note_timings(record: RequestRecord, timings: WorkerTimings) -> None:
    """Notes what a worker told with the first tokens of a sequence."""
    record.note_worker(timings.queue_duration.ToNanoseconds() / 1e9, timings.prefill_duration.ToNanoseconds() / 1e9)


def to_response(deltas: Sequence[TokenDelta]) -> bytes:
    """Joins all deltas of a sequence into one, for the cache to keep. The time and the price of it are not the
    next one's."""
    whole = TokenDelta()
    for delta in deltas:
        whole.MergeFrom(delta)
    whole.first_index = 0
    whole.ClearField("timings")
    whole.ClearField("cost")
    return whole.SerializeToString()
