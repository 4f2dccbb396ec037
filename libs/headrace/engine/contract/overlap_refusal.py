"""The refusal of steps that overlap, where the settings insist on them."""

from headrace.engine.contract.engine_config import EngineConfig
from headrace.errors.tree import ConfigError


def refuse_overlap(config: EngineConfig, reason: str) -> None:
    """Raises ConfigError if the settings insist that steps are launched one ahead, where they cannot for a `reason`."""
    if config.overlap == "on":
        raise ConfigError(f"overlap is on, but {reason}; choose auto or off", param="overlap")
