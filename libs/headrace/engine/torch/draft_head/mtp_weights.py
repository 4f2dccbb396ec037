"""The tensors of a layer for multi-token prediction, by the names of a model that has it alone."""

from pathlib import Path

import torch
from torch import Tensor

from headrace.engine.checkpoints.draft_heads.mtp_config import MtpNames, mtp_names
from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.layout.stored_names import ModuleNaming
from headrace.engine.checkpoints.safetensors_weights import Weights
from headrace.engine.checkpoints.weight_source import WeightSource, open_weights
from headrace.engine.checkpoints.weights.quantized_matrix import Weight
from headrace.errors.tree import ConfigError

TOKEN_NORM, STATES_NORM, PROJECTION, NORM = "mtp.token_norm", "mtp.states_norm", "mtp.projection", "mtp.norm"
_LAYER = "model.layers.0."


class MtpWeights:
    """Reads `model.layers.0`, and the modules around it by the names above. Implements WeightSource."""

    def __init__(self, source: WeightSource, names: MtpNames) -> None:
        self._source = source
        self._layer = f"{names.layer}."
        self._modules = {
            TOKEN_NORM: names.token_norm,
            STATES_NORM: names.states_norm,
            PROJECTION: names.projection,
            NORM: names.norm,
        }

    def read(self, name: str, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
        return self._source.read(self._stored(name), shape, dtype, device)

    def matrix(self, name: str, shape: tuple[int, int], dtype: torch.dtype, device: torch.device) -> Weight:
        return self._source.matrix(self._stored(name), shape, dtype, device)

    def _stored(self, name: str) -> str:
        if name.startswith(_LAYER):
            return self._layer + name.removeprefix(_LAYER)
        for module, stored in self._modules.items():
            if name == module or name.startswith(f"{module}."):
                return stored + name.removeprefix(module)
        return name


def open_mtp_weights(folder: Path, model: DecoderConfig, bits: int | None) -> MtpWeights:
    """Opens the checkpoint of a model. `bits` rounds plain matrices. Raises ConfigError if it has no such layer,
    InvalidCheckpoint if it cannot be read."""
    names = mtp_names(model, Weights(folder))
    if names is None:
        raise ConfigError(
            f"speculation is 'mtp', but {folder} has no layer for multi-token prediction; choose 'on', or the "
            "checkpoint as its makers published it",
            param="speculation",
        )
    return MtpWeights(open_weights(folder, model.quantization, bits, naming=ModuleNaming.of(model)), names)
