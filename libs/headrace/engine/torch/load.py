"""Loads a decoder that runs on torch, on any device."""

from dataclasses import replace
from pathlib import Path

import torch

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.files.gguf_path import is_gguf
from headrace.engine.checkpoints.layout.stored_names import ModuleNaming
from headrace.engine.checkpoints.model_limits import ROUNDED_BITS, describe_precision
from headrace.engine.checkpoints.weight_record import WeightRecord
from headrace.engine.checkpoints.weight_source import open_weights
from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.contract.held_memory import HeldMemory
from headrace.engine.step.loaded_model import LoadedModel
from headrace.engine.torch.adapters.adapter_set import AdapterSet
from headrace.engine.torch.attention.paged_attention import PagedAttention
from headrace.engine.torch.backends.backend import Backend
from headrace.engine.torch.decoder.decoder import Decoder
from headrace.engine.torch.device.current_device import on_device
from headrace.engine.torch.device.device_memory import NOTHING_LATER, LaterMemory
from headrace.engine.torch.device_setup import build_attention, settle_threads
from headrace.engine.torch.overlap import chosen_tokens
from headrace.engine.torch.runner import TorchRunner
from headrace.engine.torch.trial_steps import run_trial, steps_of_all_sizes


def load_torch(
    source: Path,
    model: DecoderConfig,
    config: EngineConfig,
    max_len: int,
    backend: Backend,
    later: LaterMemory = NOTHING_LATER,
) -> LoadedModel:
    """Loads a decoder for torch, for contexts of up to `max_len` tokens, and leaves memory of its device for what comes
    `later`. Raises InvalidCheckpoint, Unsupported or ConfigError."""
    operators, dtype, device = backend.operators, backend.dtype, backend.device
    settle_threads(config, operators)
    with torch.inference_mode(), on_device(device):
        bits = ROUNDED_BITS.get(config.precision)
        forms = replace(backend.forms, keeps_blocks=backend.forms.keeps_blocks and is_gguf(source))
        naming = ModuleNaming.of(model)
        files = open_weights(source, model.quantization, bits, naming=naming, keeps_blocks=forms.keeps_blocks)
        weights = WeightRecord(files)
        decoder = Decoder(model, weights, operators, dtype, device, forms=forms)
        decoder.join(backend.join(decoder.layers))
        adapters = AdapterSet.load(config.adapters, model, operators, dtype, device) if config.adapters else None
        attention = build_attention(config, backend, decoder, max_len, later)
        if device.type == "cuda":
            _warm_up(decoder, attention, config, max_len, device)
        # Without a head there are no decodes to replay.
        chosen = chosen_tokens(config, backend)
        graphs = backend.graphs(decoder, attention, max_len, chosen) if model.has_head else None
        if graphs is not None:
            graphs.capture()
    runner = TorchRunner(decoder, attention, backend, adapters, graphs, chosen)
    precision = describe_precision(config, model, dtype)
    launcher = None if chosen is None else runner
    return LoadedModel(
        runner,
        attention.block_count,
        decoder.parameter_count,
        str(device),
        precision,
        HeldMemory(weights.byte_count, attention.byte_count, getattr(attention, "state_bytes", 0)),
        getattr(attention, "slots", None),
        launcher,
    )


def _warm_up(
    decoder: Decoder, attention: PagedAttention, config: EngineConfig, max_len: int, device: torch.device
) -> None:
    """Has kernels compiled for steps of all sizes: later, it would look as if a step hung."""
    for arrays in steps_of_all_sizes(config, max_len):
        run_trial(decoder, attention, arrays, device)
    attention.clear([0])
