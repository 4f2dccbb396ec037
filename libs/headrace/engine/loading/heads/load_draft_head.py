"""Loads draft heads beside the model that they draft for."""

from pathlib import Path
from typing import cast

import numpy as np

from headrace.engine.checkpoints.draft_heads.eagle_config import (
    EagleConfig,
    is_draft_head,
    read_eagle_config,
    usual_layers,
)
from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.files.gguf_path import is_gguf
from headrace.engine.contract.engine import EngineSpec
from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.contract.held_memory import HeldMemory
from headrace.engine.cpu.decoder import LANES
from headrace.engine.cpu.draft_head.eagle_head import EagleHead
from headrace.engine.cpu.draft_head.eagle_weights import read_eagle_weights
from headrace.engine.kernels.choice.candidates import choose_instructions
from headrace.engine.kernels.choice.shared_context import shared_context
from headrace.engine.memory.host_cores import usable_core_count
from headrace.engine.speculation.drafters.draft_head import DraftHead
from headrace.engine.speculation.drafters.head_drafter import HeadDrafter
from headrace.engine.step.auxiliary.auxiliary_states import AuxiliaryStates
from headrace.engine.step.auxiliary.headed_runner import HeadedRunner
from headrace.engine.step.runner import Runner
from headrace.errors.tree import ConfigError, InvalidCheckpoint, Unsupported


def check_draft_head(config: EngineConfig) -> None:
    """Raises ConfigError for a draft head where none can run, before a model is loaded."""
    drafts_itself = config.speculation == "mtp"
    folder = None if config.speculation == "off" else config.draft_folder
    if not drafts_itself and (folder is None or not is_draft_head(folder)):
        return
    is_alone = config.tensor_parallel_count * config.pipeline_parallel_count == 1
    if is_alone and config.device.partition(":")[0] == "cpu" and choose_instructions() is not None:
        return
    raise ConfigError(
        "a draft head runs on the CPU kernels, beside a model in one process on the CPU: draft with a small model of "
        "the same vocabulary (draft_folder), or without one (speculation 'on')",
        param="speculation" if drafts_itself else "draft_folder",
    )


def load_eagle_head(
    folder: Path, model: DecoderConfig, config: EngineConfig, spec: EngineSpec, runner: Runner
) -> tuple[HeadDrafter, HeldMemory]:
    """Loads the EAGLE-3 head in a folder for the model that `runner` runs. Returns what drafts with it, and the memory
    that it holds. Raises InvalidCheckpoint, Unsupported or ConfigError."""
    headed = cast("HeadedRunner", runner)
    facts = read_eagle_config(folder)
    layers = _check_fit(facts, model)
    weights = read_eagle_weights(folder, facts, exact=config.exact)
    if weights.embedding is None:
        # A table that cannot be read is refused now, and not in the first step.
        headed.embed(np.zeros(1, np.int64))
    head = EagleHead(
        facts,
        weights,
        shared_context(config.thread_count or usable_core_count()),
        headed.embed,
        max_len=spec.max_model_length,
        block_size=spec.block_size,
        block_count=spec.block_count,
        exact=config.exact,
    )
    return _follow(headed, head, layers, model, spec), HeldMemory(weights.byte_count, head.byte_count)


def load_mtp(
    folder: Path, model: DecoderConfig, config: EngineConfig, spec: EngineSpec, runner: Runner
) -> tuple[HeadDrafter, HeldMemory]:
    """Loads the layer for multi-token prediction of the model in a folder, which `runner` runs. Returns what drafts
    with it, and the memory that it holds. Raises InvalidCheckpoint, Unsupported or ConfigError."""
    headed = cast("HeadedRunner", runner)
    if is_gguf(folder):
        raise Unsupported("speculation 'mtp' is not supported for GGUF files: take the safetensors, or choose 'on'")
    # Imports torch, which the fused kernels can do without.
    from headrace.engine.torch.draft_head.mtp_head import load_mtp_head

    head = load_mtp_head(folder, model, config, spec, headed)
    memory = HeldMemory(head.weight_bytes, head.byte_count)
    return _follow(headed, head, (model.layer_count,), model, spec), memory


def _follow(
    runner: HeadedRunner, head: DraftHead, layers: tuple[int, ...], model: DecoderConfig, spec: EngineSpec
) -> HeadDrafter:
    """Has a head follow what a runner computes."""
    drafter = HeadDrafter(head, runner.sampler, spec.block_size)
    runner.keep(AuxiliaryStates(layers, model.hidden_size, drafter.receive))
    return drafter


def _check_fit(head: EagleConfig, model: DecoderConfig) -> tuple[int, ...]:
    """Returns the layers of the model whose inputs the head reads. Raises InvalidCheckpoint for a head that was made
    for another model."""
    layers = head.layers or usual_layers(model.layer_count)
    facts = {
        "vocab_size": (head.layer.vocabulary_size, model.vocabulary_size),
        "hidden size": (head.states_size, model.hidden_size),
    }
    for name, (found, expected) in facts.items():
        if found != expected:
            raise InvalidCheckpoint(f"the draft head is for a model of {name} {found}, and this one has {expected}")
    uneven = {"hidden size": head.layer.hidden_size % LANES, "head size": head.layer.head_size % LANES}
    if named := next((name for name, rest in uneven.items() if rest), None):
        raise Unsupported(f"the {named} of the draft head is not a multiple of {LANES}, as the CPU kernels need")
    if not all(0 <= layer <= model.layer_count for layer in layers):
        raise InvalidCheckpoint(f"the draft head reads the layers {layers}, and the model has {model.layer_count}")
    if model.blocks.streams is not None:
        raise Unsupported(f"draft heads for {model.architecture} are not supported: its hidden states are in streams")
    return layers
