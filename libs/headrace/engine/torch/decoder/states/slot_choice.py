"""The choice how many states a model has memory for."""

import logging

from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.contract.state_slots import StateSlots
from headrace.errors.tree import ConfigError

RUNNING_SHARE, SNAPSHOT_SHARE = 0.5, 0.25
"""Shares of the memory of the KV cache that go to states of running sequences, and to snapshots, at most."""
SNAPSHOTS_EACH = 2
"""Further states for each running sequence: snapshots at the end of its prompt and behind what it wrote, or the states
before and behind draft tokens."""

_log = logging.getLogger(__name__)


def choose_slots(config: EngineConfig, slot_bytes: int, room: int) -> StateSlots:
    """Chooses the places for states of `slot_bytes` each within `room` bytes, of which blocks take the rest. Runs
    fewer sequences than the settings allow where their states would take more than RUNNING_SHARE. Raises ConfigError if
    there is not room for one."""
    affordable = int(room * RUNNING_SHARE) // slot_bytes - 1
    if affordable < 1:
        raise ConfigError(
            f"a running sequence keeps a state of {slot_bytes >> 10} KiB, and {room >> 10} KiB are there for that and "
            "for keys and values: raise kv_cache_bytes, or take a smaller model",
            param="kv_cache_bytes",
        )
    running = min(config.max_running_count, affordable)
    if running < config.max_running_count:
        facts = {"running": running, "max_running_count": config.max_running_count, "state_bytes": slot_bytes}
        _log.warning("fewer sequences run at once: their states take half of the memory of the KV cache", extra=facts)
    if not config.prefix_cache and config.speculation == "off":
        return StateSlots(running, 0)
    most = max(1, int(room * SNAPSHOT_SHARE) // slot_bytes)
    return StateSlots(running, min(config.state_snapshot_count or SNAPSHOTS_EACH * running, most))
