"""Makes the engine that suits a checkpoint."""

from pathlib import Path

from headrace.engine.engine import Engine
from headrace.engine.engine_config import EngineConfig
from headrace.engine.loader.gguf_path import is_gguf
from headrace.engine.loader.model_config import read_json
from headrace.engine.loader.sentence_files import has_sentence_settings
from headrace.engine.models.registry import ENCODER_FAMILIES, HEADLESS
from headrace.engine.text_engine import TextEngine
from headrace.errors.tree import Unsupported


def load_engine(source: Path, config: EngineConfig) -> Engine:
    """Loads a Hugging Face folder or a GGUF file. Encoders, and decoders with sentence-transformers' files or without
    a head, make embeddings; all others make text. Raises InvalidCheckpoint, Unsupported or ConfigError."""
    if is_gguf(source):
        return TextEngine.load(source, config)
    architectures = read_json(source / "config.json").get("architectures")
    architecture = architectures[0] if isinstance(architectures, list) and architectures else None
    is_encoder = architecture in ENCODER_FAMILIES
    if not is_encoder and architecture not in HEADLESS and not has_sentence_settings(source):
        return TextEngine.load(source, config)
    if config.adapters:
        raise Unsupported(f"{source} makes embeddings; adapters are only for models that make text.")
    # Import torch, which text models can do without.
    from headrace.engine.decoder_embedding_engine import DecoderEmbeddingEngine
    from headrace.engine.encoder_engine import EncoderEngine

    return EncoderEngine.load(source, config) if is_encoder else DecoderEmbeddingEngine.load(source, config)
