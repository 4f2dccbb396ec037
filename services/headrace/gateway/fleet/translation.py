"""Messages of workers to facts, commands to messages, and questions among gateways both ways."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from headrace.gateway.fleet.commands import Cancellation, Command
from headrace.gateway.fleet.worker_facts import WorkerFacts
from headrace.gateway.peers.request_query import RequestQuery
from headrace.gateway.request.translation import to_model_facts
from headrace.v1 import worker_pb2 as pb
from headrace.v1.events_pb2 import RequestsAsked, RequestsTold

_RESIDENCES: Mapping[int, str] = {
    pb.MODEL_RESIDENCE_ON_DISK: "on_disk",
    pb.MODEL_RESIDENCE_ASLEEP: "asleep",
    pb.MODEL_RESIDENCE_AWAKE: "awake",
}
"""Places of a model as people read them. One that is not told is awake."""


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
        residence=_RESIDENCES.get(status.residence, "awake"),
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


def to_requests_asked(query: RequestQuery, gateway_id: str) -> RequestsAsked:
    """The message in which a gateway asks."""
    return RequestsAsked(
        gateway_id=gateway_id,
        tenant=query.tenant,
        all_tenants=query.all_tenants,
        open_requests=query.is_open,
        limit=query.limit,
        model=query.model,
        outcome=query.outcome,
        name=query.name,
    )


def to_request_query(asked: RequestsAsked) -> RequestQuery:
    """The question in a message."""
    return RequestQuery(
        tenant=asked.tenant,
        all_tenants=asked.all_tenants,
        is_open=asked.open_requests,
        limit=asked.limit,
        model=asked.model,
        outcome=asked.outcome,
        name=asked.name,
    )


def to_requests_told(rows: Sequence[dict[str, Any]], gateway_id: str) -> RequestsTold:
    """The message in which a gateway answers."""
    return RequestsTold(gateway_id=gateway_id, rows=[json.dumps(row).encode() for row in rows])
