"""Loads a decoder that runs on torch, on any device."""

from pathlib import Path

import torch

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.model_limits import ROUNDED_BITS, describe_precision
from headrace.engine.checkpoints.weight_record import WeightRecord
from headrace.engine.checkpoints.weight_source import open_weights
from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.contract.held_memory import HeldMemory
from headrace.engine.step.loaded_model import LoadedModel
from headrace.engine.torch.adapters.adapter_set import AdapterSet
from headrace.engine.torch.backends.backend import Backend
from headrace.engine.torch.decoder.decoder import Decoder
from headrace.engine.torch.device.current_device import on_device
from headrace.engine.torch.device_setup import build_attention, settle_threads
from headrace.engine.torch.runner import TorchRunner


def load_torch(source: Path, model: DecoderConfig, config: EngineConfig, max_len: int, backend: Backend) -> LoadedModel:
    """Loads a decoder for torch, for contexts of up to `max_len` tokens. Raises InvalidCheckpoint, Unsupported or
    ConfigError."""
    operators, dtype, device = backend.operators, backend.dtype, backend.device
    settle_threads(config, operators)
    with torch.inference_mode(), on_device(device):
        bits = ROUNDED_BITS.get(config.precision)
        weights = WeightRecord(open_weights(source, model.quantization, bits, has_head=model.has_head))
        decoder = Decoder(model, weights, operators, dtype, device)
        adapters = AdapterSet.load(config.adapters, model, operators, dtype, device) if config.adapters else None
        attention = build_attention(config, backend, decoder, max_len)
        # Without a head there are no decodes to replay.
        graphs = backend.graphs(decoder, attention) if model.has_head else None
    runner = TorchRunner(decoder, attention, backend, adapters, graphs)
    precision = describe_precision(config, model, dtype)
    memory = HeldMemory(weights.byte_count, attention.byte_count)
    return LoadedModel(runner, attention.block_count, decoder.parameter_count, str(device), precision, memory)
