"""Loads an encoder that runs on torch, on any device."""

from pathlib import Path

import torch

from headrace.engine.checkpoints.facts.encoder_config import EncoderConfig
from headrace.engine.checkpoints.model_limits import ROUNDED_BITS, describe_precision
from headrace.engine.checkpoints.safetensors_weights import Weights
from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.contract.held_memory import HeldMemory
from headrace.engine.step.loaded_encoder import LoadedEncoder
from headrace.engine.torch.device.current_device import on_device
from headrace.engine.torch.device_setup import choose_precision, settle_threads
from headrace.engine.torch.encoder.encoder import Encoder
from headrace.engine.torch.operators.operators import Operators


def load_torch_encoder(
    folder: Path, model: EncoderConfig, config: EngineConfig, operators: Operators, device: torch.device
) -> LoadedEncoder:
    """Loads an encoder for torch. Raises InvalidCheckpoint, Unsupported or ConfigError."""
    dtype = choose_precision(config, model, device)
    settle_threads(config, operators)
    weights = Weights(folder, model.quantization, ROUNDED_BITS.get(config.precision))
    with on_device(device):
        encoder = Encoder(model, weights, operators, dtype, device)
    precision = describe_precision(config, model, dtype)
    return LoadedEncoder(encoder, encoder.parameter_count, str(device), precision, HeldMemory(encoder.byte_count))
