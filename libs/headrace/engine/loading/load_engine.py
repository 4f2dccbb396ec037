"""Makes the engine that suits a checkpoint."""

from pathlib import Path

from headrace.engine.checkpoints.families.model_kind import is_encoder, makes_embeddings
from headrace.engine.contract.engine import Engine
from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.loading.load_embedding_engine import load_embedding_engine
from headrace.engine.loading.load_encoder_engine import load_encoder_engine
from headrace.engine.loading.load_text_engine import load_text_engine
from headrace.errors.tree import Unsupported


def load_engine(source: Path, config: EngineConfig) -> Engine:
    """Loads a Hugging Face folder or a GGUF file. Encoders, and decoders with sentence-transformers' files or without
    a head, make embeddings; all others make text. Raises InvalidCheckpoint, Unsupported or ConfigError."""
    if not makes_embeddings(source):
        return load_text_engine(source, config)
    if config.adapters:
        raise Unsupported(f"{source} makes embeddings; adapters are only for models that make text")
    return load_encoder_engine(source, config) if is_encoder(source) else load_embedding_engine(source, config)
