"""Graphs of a decoder, if the settings ask for them."""

import torch

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.torch.attention.paged_attention import PagedAttention
from headrace.engine.torch.backends.step_graphs import StepGraphs
from headrace.engine.torch.decoder.decoder import Decoder
from headrace.errors.tree import ConfigError


def build_graphs(
    config: EngineConfig,
    model: DecoderConfig,
    device: torch.device,
    misfit: str,
    decoder: Decoder,
    attention: PagedAttention,
) -> StepGraphs | None:
    """Builds what replays steps of decodes. `misfit` says why the kernels in Triton do not attend, and is empty where
    they do. Raises ConfigError for a model that cannot be replayed."""
    if not config.cuda_graphs:
        return None
    if model.experts is not None:
        raise ConfigError("cuda_graphs is on, but the host routes this model's experts; turn it off")
    if misfit:
        raise ConfigError(f"cuda_graphs is on, but the kernels in Triton do not attend here: {misfit}; turn it off")
    # Both import Triton, which only GPUs need.
    from headrace.engine.gpu.attention.triton_attention import TritonAttention
    from headrace.engine.gpu.graphs.decode_graphs import DecodeGraphs

    return DecodeGraphs(decoder, attention, device) if isinstance(attention, TritonAttention) else None
