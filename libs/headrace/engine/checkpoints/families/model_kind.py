"""Kind of a model: whether it makes text, embeddings or scores."""

from pathlib import Path

from headrace.engine.checkpoints.families.encoders.encoder_family import SCORING
from headrace.engine.checkpoints.families.registry import ENCODER_FAMILIES, HEADLESS
from headrace.engine.checkpoints.files.gguf_path import is_gguf
from headrace.engine.checkpoints.files.json_file import read_json
from headrace.engine.checkpoints.files.sentence_files import has_sentence_settings
from headrace.folder_text.score_tokens import read_score_tokens


def architecture_of(folder: Path) -> str | None:
    """Returns the architecture that config.json names. Raises InvalidCheckpoint if it cannot be read."""
    architectures = read_json(folder / "config.json").get("architectures")
    return str(architectures[0]) if isinstance(architectures, list) and architectures else None


def is_encoder(source: Path) -> bool:
    """Whether a model is an encoder. Raises InvalidCheckpoint."""
    return not is_gguf(source) and architecture_of(source) in ENCODER_FAMILIES


def scores_pairs(source: Path) -> bool:
    """Whether a model scores pairs of texts. Raises InvalidCheckpoint."""
    if is_gguf(source):
        return False
    if is_encoder(source):
        return str(architecture_of(source)).endswith(SCORING)
    return read_score_tokens(source) is not None


def makes_embeddings(source: Path) -> bool:
    """Whether a model is for embeddings or scores: encoders, and decoders with sentence-transformers' files, without a
    head, or with tokens that score pairs. Raises InvalidCheckpoint."""
    if is_gguf(source):
        return False
    if is_encoder(source) or architecture_of(source) in HEADLESS or has_sentence_settings(source):
        return True
    return read_score_tokens(source) is not None
