"""Loads a checkpoint into an engine that makes embeddings or scores with an encoder. Imports torch only where it
computes."""

import logging
from dataclasses import replace
from pathlib import Path

from headrace.engine.checkpoints.encoder_settings import read_encoder_config
from headrace.engine.checkpoints.facts.encoder_config import EncoderConfig
from headrace.engine.checkpoints.model_limits import choose_max_len
from headrace.engine.checkpoints.sentence_transformer import SentenceSettings, read_sentence_settings
from headrace.engine.contract.engine import EngineSpec
from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.contract.held_memory import HeldMemory
from headrace.engine.cpu.encoder.load_cpu_encoder import can_encode_on_cpu, load_cpu_encoder
from headrace.engine.engines.encoder_engine import EncoderEngine
from headrace.engine.engines.fingerprint import fingerprint_of
from headrace.engine.engines.vector_head import VectorHead
from headrace.engine.loading.load_vector_head import load_scoring_head, load_sentence_head
from headrace.engine.loading.memory_placement import place_memory
from headrace.engine.loading.model_costs import encoder_cost
from headrace.engine.loading.required_torch import require_torch
from headrace.engine.step.loaded_encoder import LoadedEncoder

_log = logging.getLogger(__name__)


def load_encoder_engine(folder: Path, config: EngineConfig) -> EncoderEngine:
    """Loads a Hugging Face model folder with sentence-transformers' files, where there are any.

    Raises InvalidCheckpoint, Unsupported or ConfigError.
    """
    model_config = read_encoder_config(folder)
    settings = SentenceSettings() if model_config.scoring else read_sentence_settings(folder)
    model_config = _within(model_config, settings.max_len)
    max_len = choose_max_len(config, model_config)
    model = _load_encoder(folder, model_config, config)
    head = _load_head(folder, model_config, settings)
    parameter_count = model.parameter_count + head.parameter_count
    memory = model.memory + HeldMemory(head.byte_count)
    spec = EngineSpec(
        architecture=model_config.architecture,
        vocabulary_size=model_config.vocabulary_size,
        max_model_length=max_len,
        max_running_count=config.max_running_count,
        max_step_token_count=config.max_step_token_count,
        block_size=0,
        block_count=0,
        eos_token_ids=frozenset(),
        device=model.device,
        precision=model.precision,
        parameter_count=parameter_count,
        embedding_size=head.size(model_config.hidden_size),
        scores_pairs=model_config.scoring is not None,
        memory=memory,
        cost=encoder_cost(model_config, parameter_count, memory),
    )
    engine = EncoderEngine(spec, model.encoder, head)
    engine.identify(fingerprint_of(engine))
    return engine


def _load_head(folder: Path, model: EncoderConfig, settings: SentenceSettings) -> VectorHead:
    if model.scoring is not None:
        return load_scoring_head(folder, model, model.scoring)
    return load_sentence_head(folder, settings, model.hidden_size)


def _load_encoder(folder: Path, model: EncoderConfig, config: EngineConfig) -> LoadedEncoder:
    """Loads an encoder in the form that runs fastest here: fused kernels where they can, else torch."""
    place_memory(config)
    fits, reason = can_encode_on_cpu(model, config)
    if fits:
        return load_cpu_encoder(folder, model, config)
    require_torch(reason)
    # All import torch, which the fused kernels can do without.
    from headrace.engine.gpu.operators.gpu_operators import choose_gpu_operators
    from headrace.engine.torch.device_setup import choose_device
    from headrace.engine.torch.encoder.load_torch_encoder import load_torch_encoder
    from headrace.engine.torch.operators.choose_operators import choose_encoder_operators

    _log.info("the model runs through torch", extra={"reason": reason})
    device = choose_device(config)
    is_host = device.type == "cpu"
    operators = choose_encoder_operators(config.thread_count) if is_host else choose_gpu_operators(device, "torch")
    return load_torch_encoder(folder, model, config, operators, device)


def _within(config: EncoderConfig, max_len: int | None) -> EncoderConfig:
    """Limits inputs to the length that the model was trained for, which can be less than it has positions for."""
    return config if max_len is None else replace(config, max_model_length=min(max_len, config.max_model_length))
