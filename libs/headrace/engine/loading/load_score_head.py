"""Loads the score of a pair out of the output head of a causal model."""

from pathlib import Path

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.facts.pooling import Pooling
from headrace.engine.checkpoints.layout.stored_names import ModuleNaming, StoredNames
from headrace.engine.checkpoints.safetensors_arrays import SafetensorsArrays
from headrace.engine.engines.dense_layer import DenseLayer
from headrace.engine.engines.vector_head import VectorHead
from headrace.errors.tree import InvalidCheckpoint, Unsupported
from headrace.folder_text.score_tokens import ScoreTokens


def load_score_head(folder: Path, config: DecoderConfig, tokens: ScoreTokens) -> VectorHead:
    """Loads a head whose one number is the logit of one token less that of another: their log-odds. Of the output head,
    only their rows are read. Raises InvalidCheckpoint or Unsupported."""
    if config.head_bias or config.logit_soft_cap is not None:
        raise Unsupported(
            f"{config.architecture} cannot score pairs by its logits: its output head has a bias or a soft cap"
        )
    arrays = SafetensorsArrays(folder)
    names = StoredNames.of(ModuleNaming.of(config), arrays)
    name = names.stored("model.embed_tokens.weight" if config.tied_embeddings else "lm_head.weight")
    ids = [token for token in (tokens.true_id, tokens.false_id) if token is not None]
    if not all(0 <= token < config.vocabulary_size for token in ids):
        raise InvalidCheckpoint(f"{folder}: the tokens of scores are {ids}, of {config.vocabulary_size} tokens")
    rows = [arrays.entry(name, token).copy() for token in ids]
    row = rows[0] if len(rows) == 1 else rows[0] - rows[1]
    if row.shape != (config.hidden_size,):
        raise InvalidCheckpoint(f"{folder}: rows of tensor {name} have shape {row.shape}, not ({config.hidden_size},)")
    return VectorHead(Pooling.LAST, (DenseLayer(row[None]),))
