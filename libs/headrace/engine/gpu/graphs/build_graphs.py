"""Graphs of a decoder, if the settings ask for them."""

import logging

import torch

from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.gpu.graphs.cuda_capture import CudaCapture
from headrace.engine.gpu.graphs.host_capture import HostCapture
from headrace.engine.torch.attention.paged_attention import PagedAttention
from headrace.engine.torch.backends.layered_attention import LayeredAttention
from headrace.engine.torch.backends.step_graphs import StepGraphs
from headrace.engine.torch.decoder.decoder import Decoder
from headrace.engine.torch.decoder.decoder_layer import DecoderLayer, PreNormLayer, SandwichNormLayer
from headrace.engine.torch.device.chosen_tokens import ChosenTokens
from headrace.engine.torch.layers.expert_mlp import ExpertMlp
from headrace.errors.tree import ConfigError

_log = logging.getLogger(__name__)


def build_graphs(
    config: EngineConfig,
    device: torch.device,
    misfit: str,
    decoder: Decoder,
    attention: PagedAttention,
    max_len: int,
    chosen: ChosenTokens | None,
) -> StepGraphs | None:
    """Builds what replays steps of decodes for contexts of up to `max_len` tokens, on a GPU unless the settings have it
    off. Steps that are launched read `chosen`. `misfit` says why the kernels in Triton do not attend, and is empty
    where they do. Raises ConfigError if the settings have it on, and the model cannot be replayed."""
    if config.cuda_graphs == "off" or (config.cuda_graphs == "auto" and device.type != "cuda"):
        return None
    if problem := _problem(decoder, attention, misfit):
        if config.cuda_graphs == "on":
            raise ConfigError(f"cuda_graphs is on, but {problem}; choose auto or off", param="cuda_graphs")
        _log.info("steps are not replayed as CUDA graphs", extra={"reason": problem})
        return None
    # All import Triton, which only GPUs need.
    from headrace.engine.gpu.attention.triton_attention import TritonAttention
    from headrace.engine.gpu.graphs.decode_graphs import DecodeGraphs

    if not isinstance(attention, TritonAttention):
        return None
    return DecodeGraphs(
        decoder,
        attention,
        CudaCapture(device) if device.type == "cuda" else HostCapture(),
        device,
        max_row_count=config.max_running_count,
        max_block_count=-(-max_len // attention.block_size),
        chosen=chosen,
    )


def _problem(decoder: Decoder, attention: PagedAttention, misfit: str) -> str:
    """Returns why steps of a model cannot be replayed, or nothing."""
    if isinstance(attention, LayeredAttention):
        return "its layers have heads of several sizes, or share keys and values"
    if any(_routes_on_host(layer) for layer in decoder.layers):
        return "the host routes this model's experts, whose weights are not packed alike"
    return f"the kernels in Triton do not attend here: {misfit}" if misfit else ""


def _routes_on_host(layer: DecoderLayer) -> bool:
    match layer:
        case PreNormLayer(mlp=ExpertMlp()) | SandwichNormLayer(mlp=ExpertMlp()):
            return True
    return False
