"""Messages of workers to facts, and commands to messages."""

from collections.abc import Mapping

from headrace.gateway.fleet.commands import Cancellation, Command
from headrace.gateway.fleet.model_facts import AdapterFacts, ModelFacts
from headrace.gateway.fleet.worker_facts import WorkerFacts
from headrace.service_clients.reported_step_times import step_times_of
from headrace.v1 import generation_pb2
from headrace.v1 import worker_pb2 as pb

_RESIDENCES: Mapping[int, str] = {
    pb.MODEL_RESIDENCE_ON_DISK: "on_disk",
    pb.MODEL_RESIDENCE_ASLEEP: "asleep",
    pb.MODEL_RESIDENCE_AWAKE: "awake",
}
"""Readable names of a model's places. Unspecified means awake."""


def to_worker_facts(status: pb.WorkerStatus) -> WorkerFacts:
    """The facts that a status tells."""
    return WorkerFacts(
        worker_id=status.worker_id,
        model=to_model_facts(status.model_info),
        address=status.address,
        epoch=status.epoch,
        version=status.version,
        running_count=status.running_count,
        waiting_count=status.waiting_count,
        credit_count=status.credit_count,
        block_count=status.block_count,
        used_block_count=status.used_block_count,
        draining=status.draining,
        open_request_count=status.open_request_count,
        weight_byte_count=status.weight_byte_count,
        kv_byte_count=status.kv_byte_count,
        resident_byte_count=status.resident_byte_count,
        draft_token_count=status.draft_token_count,
        accepted_token_count=status.accepted_token_count,
        preemption_count=status.preemption_count,
        computed_token_count=status.computed_token_count,
        cached_token_count=status.cached_token_count,
        replaced_block_count=status.replaced_block_count,
        busy_seconds=status.busy_seconds,
        moved_byte_count=status.moved_byte_count,
        operation_count=status.operation_count,
        memory_bandwidth=status.memory_bandwidth,
        arithmetic_rate=status.arithmetic_rate,
        hourly_price=status.hourly_price,
        step_times=step_times_of(status),
        step_token_limit=status.step_token_limit,
        max_step_seconds=status.max_step_seconds,
        residence=_RESIDENCES.get(status.residence, "awake"),
        is_pinned=status.is_pinned if status.HasField("is_pinned") else None,
        predicted_wait_seconds=status.predicted_wait_seconds,
        load_count=status.load_count,
        wake_count=status.wake_count,
        sleep_count=status.sleep_count,
        drop_count=status.drop_count,
        memory_shortage_count=status.memory_shortage_count,
        free_heap_byte_count=status.free_heap_byte_count,
    )


def to_hello(gateway_id: str) -> pb.AttachRequest:
    """The first message to a worker."""
    return pb.AttachRequest(hello=pb.GatewayHello(gateway_id=gateway_id))


def to_attach_request(command: Command) -> pb.AttachRequest:
    """The message that carries a command."""
    if isinstance(command, Cancellation):
        cancellation = pb.RequestCancellation(request_id=command.request_id, attempt=command.attempt)
        return pb.AttachRequest(cancellation=cancellation)
    references = [pb.RequestReference(request_id=name, attempt=attempt) for name, attempt in command.attempts]
    return pb.AttachRequest(inquiry=pb.RequestInquiry(requests=references))


def to_model_facts(info: generation_pb2.ModelInfo) -> ModelFacts:
    """The facts that a worker tells about its model."""
    return ModelFacts(
        model=info.model,
        architecture=info.architecture,
        max_model_length=info.max_model_length,
        vocabulary_size=info.vocabulary_size,
        block_size=info.block_size,
        parameter_count=info.parameter_count,
        precision=info.precision,
        embedding_size=info.embedding_size,
        scores_pairs=info.scores_pairs,
        fingerprint=info.fingerprint,
        adapters=tuple(AdapterFacts(adapter.name, adapter.fingerprint) for adapter in info.adapters),
        parent=info.parent,
        evicts_context=info.evicts_context,
        default_temperature=info.default_temperature if info.HasField("default_temperature") else 1.0,
        default_top_p=info.default_top_p if info.HasField("default_top_p") else 1.0,
    )


def to_model_info(facts: ModelFacts) -> generation_pb2.ModelInfo:
    """Returns the message that describes a model to clients."""
    return generation_pb2.ModelInfo(
        model=facts.model,
        architecture=facts.architecture,
        max_model_length=facts.max_model_length,
        vocabulary_size=facts.vocabulary_size,
        block_size=facts.block_size,
        parameter_count=facts.parameter_count,
        precision=facts.precision,
        embedding_size=facts.embedding_size,
        scores_pairs=facts.scores_pairs,
        fingerprint=facts.fingerprint,
        adapters=[generation_pb2.AdapterInfo(name=each.name, fingerprint=each.fingerprint) for each in facts.adapters],
        parent=facts.parent,
        evicts_context=facts.evicts_context,
        default_temperature=facts.default_temperature,
        default_top_p=facts.default_top_p,
    )
