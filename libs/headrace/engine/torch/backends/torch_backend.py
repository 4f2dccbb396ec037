"""The backend on torch alone, on any device: the reference for all others."""

import torch

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.torch.backends.attention_plan import plan_gathered
from headrace.engine.torch.backends.backend import Backend, without_graphs
from headrace.engine.torch.backends.layered_plan import plan_layers
from headrace.engine.torch.operators.torch_operators import TorchOperators
from headrace.engine.torch.sampling.torch_sampler import TorchSampler


def torch_backend(config: EngineConfig, model: DecoderConfig, dtype: torch.dtype, device: torch.device) -> Backend:
    """Returns a backend of torch's own operations."""
    attention = plan_layers(model, lambda part: plan_gathered(config, part, dtype, device))
    return Backend(device, dtype, TorchOperators(), attention, TorchSampler(), without_graphs)
