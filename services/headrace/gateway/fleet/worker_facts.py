"""Facts that a worker last reported about itself."""

from dataclasses import dataclass

from headrace.domain.step_times import StepTimes
from headrace.gateway.fleet.model_facts import ModelFacts

SECONDS_PER_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class WorkerFacts:
    """A worker and its load: see `WorkerStatus` of the protocol."""

    worker_id: str
    model: ModelFacts
    address: str = ""
    epoch: int = 0
    version: int = 0
    running_count: int = 0
    waiting_count: int = 0
    credit_count: int = 0
    block_count: int = 0
    used_block_count: int = 0
    draining: bool = False
    open_request_count: int = 0
    weight_byte_count: int = 0
    kv_byte_count: int = 0
    resident_byte_count: int = 0
    draft_token_count: int = 0
    accepted_token_count: int = 0
    preemption_count: int = 0
    computed_token_count: int = 0
    cached_token_count: int = 0
    replaced_block_count: int = 0
    busy_seconds: float = 0.0
    moved_byte_count: float = 0.0
    operation_count: float = 0.0
    memory_bandwidth: float = 0.0
    """Bytes per second at most. 0: not known."""
    arithmetic_rate: float = 0.0
    """Operations per second at most. 0: not known."""
    hourly_price: float = 0.0
    """Price of an hour. 0: not known."""
    step_times: StepTimes | None = None
    """Times of its steps by what they compute. None: not measured yet."""
    step_token_limit: int = 0
    """Tokens of a step, at most. 0: not known."""
    max_step_seconds: float = 0.0
    """Seconds that a step which reads prompts should take at most beside sequences that decode. 0: any time."""

    residence: str = "awake"
    """Place of the model: awake, asleep or on_disk."""
    is_pinned: bool | None = None
    """Whether the model stays awake whatever other models are wanted. None: it is never put to sleep."""
    predicted_wait_seconds: float = 0.0
    """Time until a request that comes now finds the model awake."""
    load_count: int = 0
    wake_count: int = 0
    sleep_count: int = 0
    drop_count: int = 0
    memory_shortage_count: int = 0
    free_heap_byte_count: int = 0

    @property
    def is_awake(self) -> bool:
        """Whether the model is on its device."""
        return self.residence == "awake"

    @property
    def queried_token_count(self) -> int:
        """Prompt tokens that were looked up in the prefix cache: found, or computed."""
        return self.computed_token_count + self.cached_token_count

    @property
    def cost(self) -> float:
        """Price of the time spent in steps since the start."""
        return self.busy_seconds * self.hourly_price / SECONDS_PER_HOUR

    @property
    def kv_usage(self) -> float:
        """Share of the KV blocks that live sequences hold, from 0 to 1."""
        return self.used_block_count / self.block_count if self.block_count else 0.0

    def models(self) -> dict[str, ModelFacts]:
        """Models that the worker serves, by name. A model takes precedence over an adapter of the same name."""
        adapted = {adapter.name: self.model.adapted(adapter) for adapter in self.model.adapters}
        return adapted | {self.model.model: self.model}
