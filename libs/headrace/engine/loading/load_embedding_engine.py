"""Loads a checkpoint into an engine that makes embeddings with a decoder."""

from pathlib import Path

import torch

from headrace.engine.checkpoints.facts.pooling import Pooling
from headrace.engine.checkpoints.files.json_file import read_json
from headrace.engine.checkpoints.headless_weights import HeadlessWeights
from headrace.engine.checkpoints.model_config import read_model_config
from headrace.engine.checkpoints.model_limits import ROUNDED_BITS, choose_max_len, describe_precision
from headrace.engine.checkpoints.safetensors_weights import Weights
from headrace.engine.checkpoints.sentence_transformer import SentenceSettings, read_sentence_settings
from headrace.engine.checkpoints.weight_record import WeightRecord
from headrace.engine.contract.engine import EngineSpec
from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.contract.held_memory import HeldMemory
from headrace.engine.engines.decoder_embedding_engine import DecoderEmbeddingEngine
from headrace.engine.engines.fingerprint import fingerprint_of
from headrace.engine.loading.model_costs import decoder_cost
from headrace.engine.torch.decoder.decoder import Decoder
from headrace.engine.torch.device_setup import build_attention, choose_device, choose_precision, settle_threads
from headrace.engine.torch.operators.choose_operators import choose_operators
from headrace.engine.torch.runner import TorchRunner
from headrace.errors.tree import Unsupported


def load_embedding_engine(folder: Path, config: EngineConfig) -> DecoderEmbeddingEngine:
    """Loads a Hugging Face model folder. Raises InvalidCheckpoint, Unsupported or ConfigError."""
    settings = read_sentence_settings(folder)
    _refuse_unsupported(folder, settings)
    model_config = read_model_config(folder)
    device = choose_device(config)
    dtype = choose_precision(config, model_config, device)
    max_len = choose_max_len(config, model_config)
    operators = choose_operators(device, config.thread_count, config.kernels)
    settle_threads(config, operators)
    with torch.inference_mode():
        files = Weights(folder, model_config.quantization, ROUNDED_BITS.get(config.precision))
        weights = WeightRecord(HeadlessWeights(files))
        model = Decoder(model_config, weights, operators, dtype, device, has_head=False)
        attention = build_attention(config, model_config, model, operators, max_len, dtype, device)
    memory = HeldMemory(weights.byte_count, attention.byte_count)
    spec = EngineSpec(
        architecture=model_config.architecture,
        vocabulary_size=model_config.vocabulary_size,
        max_model_length=min(max_len, settings.max_len or max_len, attention.block_count * config.block_size),
        max_running_count=config.max_running_count,
        max_step_token_count=config.max_step_token_count,
        block_size=config.block_size,
        block_count=attention.block_count,
        eos_token_ids=model_config.eos_token_ids,
        device=str(device),
        precision=describe_precision(config, model_config, dtype),
        parameter_count=model.parameter_count,
        embedding_size=model_config.hidden_size,
        memory=memory,
        cost=decoder_cost(
            model_config, model.parameter_count, memory, attention.block_count * config.block_size, has_head=False
        ),
    )
    runner = TorchRunner(model, attention, operators, device)
    engine = DecoderEmbeddingEngine(spec, runner, normalizes=settings.normalizes, prefix_cache=config.prefix_cache)
    engine.identify(fingerprint_of(engine))
    return engine


def _refuse_unsupported(folder: Path, settings: SentenceSettings) -> None:
    raw = read_json(folder / "config.json")
    if settings.pooling not in (None, Pooling.LAST):
        raise Unsupported(f"pooling {settings.pooling.value} of a decoder is not supported: only lasttoken")
    if raw.get("is_causal") is False or raw.get("use_bidirectional_attention"):
        raise Unsupported("a decoder whose tokens see those after them is not supported: only causal ones")
