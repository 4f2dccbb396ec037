"""Loads a checkpoint into an engine that makes embeddings with a decoder."""

from dataclasses import replace
from pathlib import Path

from headrace.engine.checkpoints.facts.pooling import Pooling
from headrace.engine.checkpoints.files.json_file import read_json
from headrace.engine.checkpoints.model_config import read_model_config
from headrace.engine.checkpoints.model_limits import choose_max_len
from headrace.engine.checkpoints.sentence_transformer import SentenceSettings, read_sentence_settings
from headrace.engine.contract.engine import EngineSpec
from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.contract.held_memory import HeldMemory
from headrace.engine.engines.decoder_embedding_engine import DecoderEmbeddingEngine
from headrace.engine.engines.encoder_engine import EncoderEngine
from headrace.engine.engines.fingerprint import fingerprint_of
from headrace.engine.loading.load_runner import load_runner
from headrace.engine.loading.load_vector_head import load_logit_head, load_sentence_head
from headrace.engine.loading.load_whole_engine import load_whole_engine
from headrace.engine.loading.model_costs import decoder_cost
from headrace.engine.loading.state_limits import running_count
from headrace.errors.tree import Unsupported
from headrace.folder_text.score_tokens import read_score_tokens

ALONE = {"tensor_parallel_count": 1, "pipeline_parallel_count": 1}
"""Settings of a model in one process: groups of processes make text."""


def load_embedding_engine(folder: Path, config: EngineConfig) -> DecoderEmbeddingEngine | EncoderEngine:
    """Loads a Hugging Face model folder. Raises InvalidCheckpoint, Unsupported or ConfigError."""
    tokens = read_score_tokens(folder)
    settings = SentenceSettings() if tokens is not None else read_sentence_settings(folder)
    whole_config = read_model_config(folder, for_embeddings=True)
    model_config = replace(whole_config, has_head=False)
    if model_config.sees_all:
        return load_whole_engine(folder, model_config, config, settings)
    _refuse_unsupported(folder, settings)
    max_len = choose_max_len(config, model_config)
    model = load_runner(folder, model_config, config.model_copy(update=ALONE), max_len)
    if tokens is None:
        head = load_sentence_head(folder, settings, model_config.hidden_size)
    else:
        head = load_logit_head(folder, whole_config, tokens)
    memory = model.memory + HeldMemory(head.byte_count)
    kv_token_count = model.block_count * config.block_size
    spec = EngineSpec(
        architecture=model_config.architecture,
        vocabulary_size=model_config.vocabulary_size,
        max_model_length=min(max_len, settings.max_len or max_len, kv_token_count),
        max_running_count=running_count(config, model.state_slots),
        max_step_token_count=config.max_step_token_count,
        block_size=config.block_size,
        block_count=model.block_count,
        eos_token_ids=model_config.eos_token_ids,
        device=model.device,
        precision=model.precision,
        parameter_count=model.parameter_count + head.parameter_count,
        snapshot_count=None if model.state_slots is None else model.state_slots.snapshot_count,
        embedding_size=head.size(model_config.hidden_size),
        scores_pairs=tokens is not None,
        memory=memory,
        cost=decoder_cost(model_config, model.parameter_count, memory, kv_token_count),
    )
    engine = DecoderEmbeddingEngine(spec, model.runner, head, prefix_cache=config.prefix_cache)
    engine.identify(fingerprint_of(engine))
    return engine


def _refuse_unsupported(folder: Path, settings: SentenceSettings) -> None:
    raw = read_json(folder / "config.json")
    if settings.pooling not in (None, Pooling.LAST):
        raise Unsupported(f"pooling {settings.pooling.value} of a decoder is not supported: only lasttoken")
    if raw.get("is_causal") is False or raw.get("use_bidirectional_attention"):
        raise Unsupported(
            "a decoder with bidirectional attention is not supported for embeddings: only causal ones are"
        )
