"""Settings that do not fit models whose layers keep a state beside keys and values."""

from headrace.engine.checkpoints.draft_heads.eagle_config import is_draft_head
from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.model_config import read_model_config
from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.contract.state_slots import StateSlots
from headrace.errors.tree import ConfigError


def check_states(config: EngineConfig, model: DecoderConfig) -> None:
    """Raises ConfigError for settings that ask what a model that keeps states cannot do, as itself or as the draft
    model."""
    _check_draft(config)
    if model.blocks.states is None:
        return
    refused = {
        "adapters": (bool(config.adapters), "it takes no adapters; merge them into its weights"),
        "cuda_graphs": (config.cuda_graphs == "on", "its steps are not replayed; choose auto or off"),
    }
    for param, (is_set, consequence) in refused.items():
        if is_set:
            raise ConfigError(f"{model.architecture} keeps a state in some layers, so {consequence}", param=param)


def running_count(config: EngineConfig, slots: StateSlots | None) -> int:
    """Returns the number of sequences that may run at once: as configured, or as many as there are states for."""
    return config.max_running_count if slots is None else slots.running_count


def _check_draft(config: EngineConfig) -> None:
    if config.draft_folder is None or config.speculation == "off" or is_draft_head(config.draft_folder):
        return
    draft = read_model_config(config.draft_folder)
    if draft.blocks.states is not None:
        raise ConfigError(
            f"the draft model {draft.architecture} keeps a state in some layers, which cannot go back to the last "
            "token that was right; take one that attends in all layers",
            param="draft_folder",
        )
