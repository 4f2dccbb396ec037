"""The choice whether steps are launched one ahead."""

import torch

from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.contract.overlap_refusal import refuse_overlap
from headrace.engine.torch.backends.backend import Backend
from headrace.engine.torch.device.chosen_tokens import ChosenTokens
from headrace.engine.torch.sampling.torch_sampler import TorchSampler


def chosen_tokens(config: EngineConfig, backend: Backend) -> ChosenTokens | None:
    """Makes room for the tokens of the step before, if the settings let steps overlap. Raises ConfigError if they
    insist and the backend cannot."""
    if not isinstance(backend.sampler, TorchSampler):
        refuse_overlap(config, "the kernels of the CPU compute the model, and leave no core idle")
        return None
    if config.overlap == "off" or (config.overlap == "auto" and backend.device.type != "cuda"):
        return None
    with torch.inference_mode():
        return ChosenTokens(config.max_running_count, backend.device)
