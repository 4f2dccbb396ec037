"""Makes the speculator that the settings ask for."""

from pathlib import Path

from headrace.engine.checkpoints.draft_heads.eagle_config import is_draft_head
from headrace.engine.checkpoints.model_config import read_model_config
from headrace.engine.contract.engine import EngineSpec
from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.contract.held_memory import HeldMemory
from headrace.engine.loading.heads.load_draft_head import load_eagle_head, load_mtp
from headrace.engine.loading.load_runner import load_runner
from headrace.engine.loading.required_torch import require_torch
from headrace.engine.speculation.draft_model import DraftModel
from headrace.engine.speculation.drafters.model_drafter import ModelDrafter
from headrace.engine.speculation.drafters.vocabulary import check_same_vocabulary
from headrace.engine.speculation.speculator import Speculator
from headrace.engine.speculation.step_timing import time_steps
from headrace.engine.step.runner import Runner


def load_speculator(folder: Path, config: EngineConfig, spec: EngineSpec, runner: Runner) -> Speculator | None:
    """Loads a speculator for the model that `runner` runs, or returns None when speculation is off. Raises ConfigError
    for a draft model of another vocabulary, InvalidCheckpoint or Unsupported for one that cannot be loaded."""
    if config.speculation == "off":
        return None
    # Measured before a head follows what the model computes.
    step_seconds = _measure(runner, config, spec)
    drafter, memory = _load_drafter(folder, config, spec, runner)
    return Speculator(drafter, memory, step_seconds, retraces=spec.snapshot_count is not None)


def _load_drafter(
    folder: Path, config: EngineConfig, spec: EngineSpec, runner: Runner
) -> tuple[DraftModel | None, HeldMemory]:
    """Loads what drafts beside the grammar and the text, if anything does, with the memory that it holds."""
    source = config.draft_folder
    if config.speculation == "mtp":
        require_torch("it drafts with its layer for multi-token prediction")
        return load_mtp(folder, read_model_config(folder), config, spec, runner)
    if source is None:
        return None, HeldMemory()
    if is_draft_head(source):
        return load_eagle_head(source, read_model_config(folder), config, spec, runner)
    check_same_vocabulary(folder, source)
    return _load_model(source, config, spec)


def _load_model(folder: Path, config: EngineConfig, spec: EngineSpec) -> tuple[ModelDrafter, HeldMemory]:
    """Loads a draft model with as many blocks as the large model, under the same numbers. It drafts without adapters:
    accepted tokens are the large model's choice."""
    model_config = read_model_config(folder)
    alone = {"tensor_parallel_count": 1, "pipeline_parallel_count": 1, "adapters": {}, "draft_folder": None}
    settings = config.model_copy(update={"block_count": spec.block_count, **alone})
    max_len = min(model_config.usual_length, spec.max_model_length)
    model = load_runner(folder, model_config, settings, max_len)
    drafter = ModelDrafter(
        model.runner,
        spec.vocabulary_size,
        max_len,
        spec.block_size,
        spec.max_step_token_count,
        model_config.vocabulary_size,
        _measure(model.runner, config, spec),
    )
    return drafter, model.memory


def _measure(runner: Runner, config: EngineConfig, spec: EngineSpec) -> dict[int, float] | None:
    """Returns the seconds of a model's steps by row count. None where one process cannot tell: a GPU computes on while
    the host has its answer, and other processes of a group may not have joined yet."""
    if spec.device != "cpu" or config.tensor_parallel_count * config.pipeline_parallel_count > 1:
        return None
    return time_steps(runner, spec.block_size, spec.block_count, spec.max_step_token_count)
