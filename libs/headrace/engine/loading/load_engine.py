"""Makes the engine that suits a checkpoint."""

from pathlib import Path

from headrace.engine.checkpoints.families.registry import ENCODER_FAMILIES, HEADLESS
from headrace.engine.checkpoints.files.gguf_path import is_gguf
from headrace.engine.checkpoints.files.json_file import read_json
from headrace.engine.checkpoints.files.sentence_files import has_sentence_settings
from headrace.engine.contract.engine import Engine
from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.loading.load_text_engine import load_text_engine
from headrace.engine.loading.required_torch import require_torch
from headrace.errors.tree import Unsupported


def load_engine(source: Path, config: EngineConfig) -> Engine:
    """Loads a Hugging Face folder or a GGUF file. Encoders, and decoders with sentence-transformers' files or without
    a head, make embeddings; all others make text. Raises InvalidCheckpoint, Unsupported or ConfigError."""
    if is_gguf(source):
        return load_text_engine(source, config)
    architectures = read_json(source / "config.json").get("architectures")
    architecture = architectures[0] if isinstance(architectures, list) and architectures else None
    is_encoder = architecture in ENCODER_FAMILIES
    if not is_encoder and architecture not in HEADLESS and not has_sentence_settings(source):
        return load_text_engine(source, config)
    if config.adapters:
        raise Unsupported(f"{source} makes embeddings; adapters are only for models that make text")
    require_torch(f"{architecture} makes embeddings")
    # Import torch, which text models can do without.
    from headrace.engine.loading.load_embedding_engine import load_embedding_engine
    from headrace.engine.loading.load_encoder_engine import load_encoder_engine

    return load_encoder_engine(source, config) if is_encoder else load_embedding_engine(source, config)
