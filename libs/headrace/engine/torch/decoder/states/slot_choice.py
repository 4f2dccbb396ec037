"""The choice how many states a model has memory for."""

from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.contract.state_slots import StateSlots
from headrace.errors.tree import ConfigError

SNAPSHOT_SHARE = 0.25
"""Share of the memory of the KV cache that goes to snapshots at most, unless their number is set."""
SNAPSHOTS_EACH = 2
"""Snapshots for each running sequence: at the end of its prompt, and behind what it wrote."""


def choose_slots(config: EngineConfig, slot_bytes: int, room: int) -> StateSlots:
    """Chooses the places for states of `slot_bytes` each within `room` bytes, of which blocks take the rest. Raises
    ConfigError if running sequences alone take more."""
    running, most = config.max_running_count, room // slot_bytes - 1
    if running > most:
        raise ConfigError(
            f"{running} running sequences keep states of {slot_bytes >> 10} KiB each, and {room >> 20} MiB are there "
            "for these and for keys and values: lower max_running_count, or raise kv_cache_bytes",
            param="max_running_count",
        )
    if not config.prefix_cache:
        return StateSlots(running, 0)
    usual = max(1, min(SNAPSHOTS_EACH * running, int(room * SNAPSHOT_SHARE) // slot_bytes))
    return StateSlots(running, min(config.state_snapshot_count or usual, most - running))
