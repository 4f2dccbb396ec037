"""Converts the status of a worker and its blocks to messages."""

from collections.abc import Iterator, Mapping

from headrace.domain.step_times import StepTimes
from headrace.engine.contract.engine import EngineSpec
from headrace.engine.contract.held_memory import HeldMemory
from headrace.engine.residency.policy.residence import Residence
from headrace.kv.block_change import BlockChange
from headrace.service_clients.block_list import BlockList
from headrace.v1 import worker_pb2 as pb
from headrace.v1.events_pb2 import BlocksChanged
from headrace.v1.generation_pb2 import AdapterInfo, ModelInfo
from headrace.v1.worker_pb2 import ListBlocksResponse, WorkerStatus
from headrace.worker.status.block_log import parts_of
from headrace.worker.status.worker_status import Status
from headrace.worker.transfer.translation import ROLES

_RESIDENCES: Mapping[Residence, "pb.ModelResidence.ValueType"] = {
    Residence.ON_DISK: pb.MODEL_RESIDENCE_ON_DISK,
    Residence.ASLEEP: pb.MODEL_RESIDENCE_ASLEEP,
    Residence.AWAKE: pb.MODEL_RESIDENCE_AWAKE,
}


def to_worker_status(status: Status) -> WorkerStatus:
    """Converts a status."""
    stats, pace, memory, cost = status.stats, status.pace, _held(status), status.spec.cost
    return WorkerStatus(
        worker_id=status.worker_id,
        epoch=status.epoch,
        version=status.version,
        address=status.address,
        model_info=to_model_info(status.spec, status.model),
        step_count=stats.progress_count,
        running_count=stats.running_count,
        waiting_count=stats.waiting_count,
        credit_count=status.credit_count,
        block_count=stats.block_count,
        used_block_count=stats.used_block_count,
        draining=status.draining,
        open_request_count=status.open_request_count,
        weight_byte_count=memory.weight_bytes,
        kv_byte_count=memory.kv_bytes + memory.state_bytes,
        resident_byte_count=status.resident_bytes,
        draft_token_count=stats.draft_token_count,
        accepted_token_count=stats.accepted_token_count,
        waiting_token_count=status.waiting_token_count,
        fence=status.fence,
        prefill_rate=pace.prefill_rate,
        step_seconds=pace.step_seconds,
        step_times=None if pace.times is None else to_step_times(pace.times),
        step_token_limit=status.spec.max_step_token_count,
        max_step_seconds=status.spec.max_step_seconds,
        pausable_count=stats.pausable_count,
        hourly_price=status.rates.hourly_price,
        preemption_count=stats.preemption_count,
        computed_token_count=stats.prompt_token_count,
        cached_token_count=stats.prefix_hit_token_count,
        replaced_block_count=status.replaced_block_count,
        busy_seconds=pace.busy_seconds,
        moved_byte_count=cost.moved_bytes(stats.work),
        operation_count=cost.operations(stats.work),
        memory_bandwidth=status.rates.memory_bandwidth,
        arithmetic_rate=status.rates.arithmetic_rate,
        free_heap_byte_count=status.free_heap_bytes,
        residence=_RESIDENCES[status.resident.residence],
        predicted_wait_seconds=status.resident.predicted_wait_seconds,
        load_count=status.resident.load_count,
        wake_count=status.resident.wake_count,
        sleep_count=status.resident.sleep_count,
        drop_count=status.resident.drop_count,
        memory_shortage_count=status.resident.out_of_memory_count,
        is_pinned=status.resident.is_pinned,
        role=ROLES[status.exchanged.role],
        block_layout=status.exchanged.layout,
        block_byte_count=status.exchanged.block_bytes,
        transfer_rate=status.exchanged.bytes_per_second,
        disk_rate=status.exchanged.disk_bytes_per_second,
    )


def to_step_times(times: StepTimes) -> pb.StepTimes:
    """Converts the times of steps."""
    return pb.StepTimes(
        base_seconds=times.base_seconds,
        prompt_token_seconds=times.prompt_token_seconds,
        sequence_seconds=times.sequence_seconds,
        context_token_seconds=times.context_token_seconds,
    )


def _held(status: Status) -> HeldMemory:
    """Returns what the model holds where it is now."""
    match status.resident.residence:
        case Residence.AWAKE:
            return status.spec.memory
        case Residence.ASLEEP:
            return HeldMemory(status.spec.memory.weight_bytes)
        case Residence.ON_DISK:
            return HeldMemory()


def to_model_info(spec: EngineSpec, model: str) -> ModelInfo:
    """Converts the facts about a model that is served under the name `model`."""
    return ModelInfo(
        model=model,
        architecture=spec.architecture,
        max_model_length=spec.max_model_length,
        vocabulary_size=spec.vocabulary_size,
        block_size=spec.block_size,
        parameter_count=spec.parameter_count,
        precision=spec.precision,
        embedding_size=spec.embedding_size or 0,
        scores_pairs=spec.scores_pairs,
        fingerprint=spec.fingerprint,
        evicts_context=spec.long_context == "evict",
        default_temperature=spec.default_sampling.temperature,
        default_top_p=spec.default_sampling.top_p,
        adapters=[AdapterInfo(name=name, fingerprint=digest) for name, digest in spec.adapters.items()],
    )


def to_blocks_changed(change: BlockChange) -> BlocksChanged:
    """Converts a change of the worker's blocks."""
    return BlocksChanged(
        worker_id=change.worker_id,
        epoch=change.epoch,
        model=change.model,
        stored_block_hashes=change.stored_block_hashes,
        removed_block_hashes=change.removed_block_hashes,
        sequence_number=change.sequence_number,
        address=change.address,
    )


def to_responses(blocks: BlockList) -> Iterator[ListBlocksResponse]:
    """Converts a list of blocks to at least one response, each small enough to be sent."""
    for part in list(parts_of(blocks.block_hashes)) or [[]]:
        yield ListBlocksResponse(
            worker_id=blocks.worker_id,
            epoch=blocks.epoch,
            model=blocks.model,
            sequence_number=blocks.sequence_number,
            block_hashes=part,
        )
