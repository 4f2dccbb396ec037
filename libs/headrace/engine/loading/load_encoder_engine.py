"""Loads a checkpoint into an engine that makes embeddings with an encoder."""

from dataclasses import replace
from pathlib import Path

import torch

from headrace.engine.checkpoints.encoder_settings import read_encoder_config
from headrace.engine.checkpoints.facts.encoder_config import EncoderConfig
from headrace.engine.checkpoints.model_limits import ROUNDED_BITS, choose_max_len, describe_precision
from headrace.engine.checkpoints.safetensors_weights import Weights
from headrace.engine.checkpoints.sentence_transformer import read_sentence_settings
from headrace.engine.contract.engine import EngineSpec
from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.contract.held_memory import HeldMemory
from headrace.engine.engines.encoder_engine import EncoderEngine
from headrace.engine.engines.fingerprint import fingerprint_of
from headrace.engine.loading.model_costs import encoder_cost
from headrace.engine.torch.device_setup import choose_device, choose_precision, settle_threads
from headrace.engine.torch.encoder.encoder import Encoder
from headrace.engine.torch.operators.choose_operators import choose_encoder_operators


def load_encoder_engine(folder: Path, config: EngineConfig) -> EncoderEngine:
    """Loads a Hugging Face model folder with sentence-transformers' files, where there are any.

    Raises InvalidCheckpoint, Unsupported or ConfigError.
    """
    settings = read_sentence_settings(folder)
    model_config = _within(read_encoder_config(folder), settings.max_len)
    device = choose_device(config)
    dtype = choose_precision(config, model_config, device)
    max_len = choose_max_len(config, model_config)
    operators = choose_encoder_operators(device, config.thread_count)
    settle_threads(config, operators)
    with torch.inference_mode():
        weights = Weights(folder, model_config.quantization, ROUNDED_BITS.get(config.precision))
        encoder = Encoder(model_config, weights, operators, dtype, device)
    memory = HeldMemory(encoder.byte_count)
    spec = EngineSpec(
        architecture=model_config.architecture,
        vocabulary_size=model_config.vocabulary_size,
        max_model_length=max_len,
        max_running_count=config.max_running_count,
        max_step_token_count=config.max_step_token_count,
        block_size=0,
        block_count=0,
        eos_token_ids=frozenset(),
        device=str(device),
        precision=describe_precision(config, model_config, dtype),
        parameter_count=encoder.parameter_count,
        embedding_size=model_config.hidden_size,
        memory=memory,
        cost=encoder_cost(model_config, encoder.parameter_count, memory),
    )
    engine = EncoderEngine(spec, encoder, settings)
    engine.identify(fingerprint_of(engine))
    return engine


def _within(config: EncoderConfig, max_len: int | None) -> EncoderConfig:
    """Limits inputs to the length that the model was trained for, which can be less than it has positions for."""
    return config if max_len is None else replace(config, max_model_length=min(max_len, config.max_model_length))
