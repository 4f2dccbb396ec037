"""Status of a worker at one moment."""

from dataclasses import dataclass

from headrace.engine.contract.engine import EngineSpec
from headrace.engine.contract.request import EngineStats
from headrace.engine.pace.step_pace import StepPace
from headrace.engine.residency.resident_status import ResidentStatus
from headrace.worker.status.device_rates import DeviceRates
from headrace.worker.transfer.transfer_status import TransferStatus


@dataclass(frozen=True, slots=True)
class Status:
    """Load of a worker, and facts about it that do not change."""

    worker_id: str
    epoch: int
    version: int
    """Larger than that of every status before."""
    address: str
    """Address at which the worker serves gRPC; empty before it does."""
    model: str
    spec: EngineSpec
    stats: EngineStats
    pace: StepPace
    credit_count: int
    """Sequences that the worker would accept now."""
    open_request_count: int
    waiting_token_count: int
    """Prompt tokens accepted and not yet computed."""
    draining: bool
    fence: int
    """Largest fencing number that the worker has seen."""
    replaced_block_count: int
    """Cached KV blocks that gave way to others since the start."""
    resident_bytes: int
    free_heap_bytes: int
    """Bytes of the heap that lie free between used ones."""
    rates: DeviceRates
    resident: ResidentStatus
    """State of the model where it shares the process with others."""
    exchanged: TransferStatus
    """Part in the exchange of KV blocks."""
