"""Loads the layers that make a vector of the hidden states of an encoder."""

from pathlib import Path

import numpy as np

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.facts.encoder_config import EncoderConfig
from headrace.engine.checkpoints.facts.pooling import Pooling
from headrace.engine.checkpoints.facts.scoring_modules import ScoringModules
from headrace.engine.checkpoints.files.json_file import read_json
from headrace.engine.checkpoints.layout.stored_names import ModuleNaming, StoredNames
from headrace.engine.checkpoints.safetensors_arrays import SafetensorsArrays
from headrace.engine.checkpoints.sentence_transformer import SentenceSettings
from headrace.engine.engines.dense_layer import DenseFunction, DenseLayer, DenseNorm, Floats
from headrace.engine.engines.vector_head import VectorHead
from headrace.errors.tree import InvalidCheckpoint, Unsupported
from headrace.folder_text.score_tokens import ScoreTokens

_FUNCTIONS: dict[str, DenseFunction] = {"Identity": "identity", "Tanh": "tanh", "ReLU": "relu", "GELU": "gelu"}
"""Activations of dense layers, by the last part of the name of their class in torch."""


def load_scoring_head(folder: Path, config: EncoderConfig, modules: ScoringModules) -> VectorHead:
    """Loads the classifier of a model that scores pairs of texts. Raises InvalidCheckpoint."""
    arrays = SafetensorsArrays(folder)
    size = config.hidden_size
    norm = None
    if modules.norm:
        weight = _copied(arrays, f"{modules.norm}.weight", size)
        norm = DenseNorm(weight, _bias(arrays, modules.norm, size), config.norm_epsilon)
    hidden = DenseLayer(
        _copied(arrays, f"{modules.dense}.weight", size, size),
        _bias(arrays, modules.dense, size),
        modules.function,
        norm,
    )
    output = DenseLayer(_copied(arrays, f"{modules.output}.weight", 1, size), _bias(arrays, modules.output, 1))
    return VectorHead(modules.pooling, (hidden, output))


def load_logit_head(folder: Path, config: DecoderConfig, tokens: ScoreTokens) -> VectorHead:
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


def load_sentence_head(folder: Path, settings: SentenceSettings, hidden_size: int) -> VectorHead:
    """Loads what sentence-transformers' files put behind a model: by default the mean. Raises InvalidCheckpoint or
    Unsupported."""
    layers: list[DenseLayer] = []
    for name in settings.dense_folders:
        layers.append(_load_dense(folder / name, layers[-1].out_size if layers else hidden_size))
    return VectorHead(settings.pooling or Pooling.MEAN, tuple(layers), settings.normalizes)


def _load_dense(folder: Path, in_size: int) -> DenseLayer:
    """Loads a dense layer from a folder of its own."""
    path = folder / "config.json"
    raw = read_json(path)
    name = str(raw.get("activation_function", "Tanh")).rpartition(".")[2]
    if name not in _FUNCTIONS:
        raise Unsupported(f"{path}: activation {name} is not supported: only {', '.join(_FUNCTIONS)}")
    out_size = raw.get("out_features")
    if raw.get("in_features") != in_size or not isinstance(out_size, int) or out_size < 1:
        raise InvalidCheckpoint(f"{path}: a dense layer from {raw.get('in_features')} to {out_size} elements cannot be")
    arrays = SafetensorsArrays(folder)
    weight = _copied(arrays, "linear.weight", out_size, in_size)
    return DenseLayer(weight, _bias(arrays, "linear", out_size), _FUNCTIONS[name])


def _bias(arrays: SafetensorsArrays, module: str, size: int) -> Floats | None:
    return _copied(arrays, f"{module}.bias", size) if f"{module}.bias" in arrays else None


def _copied(arrays: SafetensorsArrays, name: str, *shape: int) -> Floats:
    """Returns a tensor in newly allocated memory: the array read may lie in the file."""
    return np.array(arrays.values(name, shape))
