"""Loads a checkpoint into an engine that makes text. Imports torch only where the model runs through it."""

from dataclasses import replace
from pathlib import Path
from typing import Literal

from headrace.engine.batching.eviction import MIN_CONTEXT
from headrace.engine.checkpoints.adapters.adapter_fingerprint import adapter_fingerprint
from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.files.gguf_path import is_gguf
from headrace.engine.checkpoints.model_config import read_model_config
from headrace.engine.checkpoints.model_limits import choose_max_len
from headrace.engine.checkpoints.sampling_defaults import read_sampling_defaults
from headrace.engine.contract.engine import EngineSpec
from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.contract.held_memory import HeldMemory
from headrace.engine.contract.request import SamplingParams
from headrace.engine.engines.fingerprint import text_fingerprint_of
from headrace.engine.engines.text_engine import TextEngine
from headrace.engine.grammar.grammar_compiler import GrammarCompiler
from headrace.engine.loading.heads.load_draft_head import check_draft_head
from headrace.engine.loading.load_runner import load_runner
from headrace.engine.loading.load_speculator import load_speculator
from headrace.engine.loading.model_costs import decoder_cost
from headrace.engine.loading.state_limits import check_states, running_count
from headrace.errors.tree import ConfigError


def load_text_engine(folder: Path, config: EngineConfig) -> TextEngine:
    """Loads a Hugging Face folder or a GGUF file. Raises InvalidCheckpoint, Unsupported or ConfigError."""
    model_config = read_model_config(folder)
    check_states(config, model_config)
    check_draft_head(config)
    max_len = choose_max_len(config, model_config)
    model = load_runner(folder, model_config, config, max_len)
    spec = EngineSpec(
        architecture=model_config.architecture,
        vocabulary_size=model_config.vocabulary_size,
        max_model_length=max_len,
        max_running_count=running_count(config, model.state_slots),
        max_step_token_count=config.max_step_token_count,
        max_step_seconds=config.max_step_seconds,
        block_size=config.block_size,
        block_count=model.block_count,
        eos_token_ids=model_config.eos_token_ids,
        device=model.device,
        precision=model.precision,
        parameter_count=model.parameter_count,
        cost=decoder_cost(model_config, model.parameter_count, model.memory, model.block_count * config.block_size),
        snapshot_count=None if model.state_slots is None else model.state_slots.snapshot_count,
        long_context=_long_context(config, max_len),
        window=_window(model_config, config, max_len),
        default_sampling=_default_sampling(folder, config),
        adapters={name: adapter_fingerprint(folder) for name, folder in config.adapters.items()},
    )
    compiler = GrammarCompiler(folder if is_gguf(folder) else folder / "tokenizer.json", spec)
    # Before there is a draft head, which would follow what it computes.
    spec = replace(spec, fingerprint=text_fingerprint_of(model.runner, spec))
    speculator = load_speculator(folder, config, spec, model.runner)
    spec = replace(spec, memory=model.memory + (HeldMemory() if speculator is None else speculator.memory))
    return TextEngine(
        spec, model.runner, compiler, speculator, prefix_cache=config.prefix_cache, launcher=model.launcher
    )


def _default_sampling(folder: Path, config: EngineConfig) -> SamplingParams:
    return read_sampling_defaults(folder) if config.sampling_defaults == "checkpoint" else SamplingParams()


def _long_context(config: EngineConfig, max_len: int) -> Literal["stop", "evict"]:
    if config.long_context == "evict" and max_len < MIN_CONTEXT:
        raise ConfigError(f"long_context is 'evict', but the context has {max_len} tokens: it must have {MIN_CONTEXT}")
    return config.long_context


def _window(model: DecoderConfig, config: EngineConfig, max_len: int) -> int | None:
    """Tokens that a query sees at most, see `EngineSpec.window`. What drafts reads the same blocks, and may see
    further."""
    window = model.widest_window
    sees_further = config.draft_folder is not None or config.speculation == "mtp"
    return None if window is None or window >= max_len or sees_further else window
