"""Converts orders and blocks to messages, and back."""

from headrace.engine.contract.request import Urgency
from headrace.v1 import worker_pb2 as pb
from headrace.v1.generation_pb2 import PriorityClass
from headrace.worker.transfer.block_packet import BlockPacket
from headrace.worker.transfer.prefill_order import PrefillOrder
from headrace.worker.transfer.worker_role import WorkerRole

URGENCIES: dict["PriorityClass.ValueType", Urgency] = {
    PriorityClass.PRIORITY_CLASS_UNSPECIFIED: Urgency.DEFAULT,
    PriorityClass.PRIORITY_CLASS_REALTIME: Urgency.REALTIME,
    PriorityClass.PRIORITY_CLASS_INTERACTIVE: Urgency.INTERACTIVE,
    PriorityClass.PRIORITY_CLASS_BATCH: Urgency.BATCH,
}
PRIORITY_CLASSES = {urgency: priority_class for priority_class, urgency in URGENCIES.items()}
ROLES: dict[WorkerRole, "pb.WorkerRole.ValueType"] = {
    WorkerRole.BOTH: pb.WORKER_ROLE_UNSPECIFIED,
    WorkerRole.PREFILL: pb.WORKER_ROLE_PREFILL,
    WorkerRole.DECODE: pb.WORKER_ROLE_DECODE,
}


def to_prefill_order(request: pb.PrefillRequest) -> PrefillOrder:
    """Converts an order that came over the wire."""
    return PrefillOrder(
        token_ids=tuple(request.token_ids),
        cache_salt=request.cache_salt,
        adapter=request.adapter,
        urgency=URGENCIES.get(request.priority_class, Urgency.DEFAULT),
        layout=request.block_layout,
        skip_count=request.skip_block_count,
        remaining_seconds=request.remaining_duration.ToTimedelta().total_seconds(),
        held_only=request.held_only,
    )


def to_prefill_request(order: PrefillOrder) -> pb.PrefillRequest:
    """Converts an order."""
    request = pb.PrefillRequest(
        token_ids=order.token_ids,
        cache_salt=order.cache_salt,
        adapter=order.adapter,
        priority_class=PRIORITY_CLASSES[order.urgency],
        block_layout=order.layout,
        skip_block_count=order.skip_count,
        held_only=order.held_only,
    )
    request.remaining_duration.FromNanoseconds(int(order.remaining_seconds * 1e9))
    return request


def to_packet(response: pb.PrefillResponse) -> BlockPacket:
    """Converts blocks that came over the wire. They are not checked."""
    blocks = response.blocks
    return BlockPacket(
        response.first_block_index, [block.content for block in blocks], [block.checksum for block in blocks]
    )


def to_prefill_response(packet: BlockPacket) -> pb.PrefillResponse:
    """Converts blocks."""
    response = pb.PrefillResponse(first_block_index=packet.first_index)
    for content, checksum in zip(packet.contents, packet.checksums, strict=True):
        # A list of messages would be copied once more.
        response.blocks.add(content=content, checksum=checksum)
    return response
