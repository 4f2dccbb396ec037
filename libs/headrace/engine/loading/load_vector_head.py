"""Loads the layers that make a vector of the hidden states of an encoder."""

from pathlib import Path

import numpy as np

from headrace.engine.checkpoints.facts.encoder_config import EncoderConfig
from headrace.engine.checkpoints.facts.pooling import Pooling
from headrace.engine.checkpoints.facts.scoring_modules import ScoringModules
from headrace.engine.checkpoints.files.json_file import read_json
from headrace.engine.checkpoints.safetensors_arrays import SafetensorsArrays
from headrace.engine.checkpoints.sentence_transformer import SentenceSettings
from headrace.engine.engines.dense_layer import DenseFunction, DenseLayer, DenseNorm, Floats
from headrace.engine.engines.vector_head import VectorHead
from headrace.errors.tree import InvalidCheckpoint, Unsupported

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
