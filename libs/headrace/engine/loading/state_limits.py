"""Settings that do not fit models whose layers keep a state beside keys and values."""

import logging

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.model_config import read_model_config
from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.contract.state_slots import StateSlots
from headrace.errors.tree import ConfigError

_log = logging.getLogger(__name__)


def fit_to_states(config: EngineConfig, model: DecoderConfig) -> EngineConfig:
    """Returns the settings without speculation where a model keeps states, which only move forward: a token that was
    drafted and turned down cannot be taken out of them. Raises ConfigError for settings that insist on what such a
    model cannot do, as itself or as the draft model."""
    _check_draft(config)
    if model.blocks.states is None:
        return config
    refused = {
        "draft_folder": (
            config.draft_folder is not None,
            "it verifies no draft tokens; serve it without a draft model",
        ),
        "adapters": (bool(config.adapters), "it takes no adapters; merge them into its weights"),
        "cuda_graphs": (config.cuda_graphs == "on", "its steps are not replayed; choose auto or off"),
    }
    for param, (is_set, consequence) in refused.items():
        if is_set:
            raise ConfigError(f"{model.architecture} keeps a state in some layers, so {consequence}", param=param)
    if config.speculation == "on":
        _log.info("speculation is off", extra={"reason": "layers of the model keep a state, which only moves forward"})
    return config.model_copy(update={"speculation": "off"})


def running_count(config: EngineConfig, slots: StateSlots | None) -> int:
    """Returns the number of sequences that may run at once: as configured, or as many as there are states for."""
    return config.max_running_count if slots is None else slots.running_count


def _check_draft(config: EngineConfig) -> None:
    if config.draft_folder is None or config.speculation == "off":
        return
    draft = read_model_config(config.draft_folder)
    if draft.blocks.states is not None:
        raise ConfigError(
            f"the draft model {draft.architecture} keeps a state in some layers, which cannot go back to the last "
            "token that was right; take one that attends in all layers",
            param="draft_folder",
        )
