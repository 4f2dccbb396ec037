"""A sampler whose operations run with the device of the logits as the current one."""

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.engine.batching.sequence import Sequence
from headrace.engine.contract.request import TokenLogprob
from headrace.engine.step.sampler import Logits, Sampler
from headrace.engine.torch.device.current_device import on_device


class DeviceSampler:
    """Implements the Protocol of `sampler.py` by another sampler. The engine samples after a step has returned, outside
    of the context that the step ran in."""

    def __init__(self, sampler: Sampler, device: torch.device) -> None:
        self._sampler = sampler
        self._device = device

    def likeliest(self, logits: Logits) -> tuple[list[int], list[float]]:
        with on_device(self._device):
            return self._sampler.likeliest(logits)

    def sample(self, logits: Logits, sequences: list[Sequence], best: list[int] | None = None) -> list[int]:
        with on_device(self._device):
            return self._sampler.sample(logits, sequences, best)

    def logprobs(self, logits: Logits, token_ids: list[int], top_counts: list[int]) -> list[TokenLogprob]:
        with on_device(self._device):
            return self._sampler.logprobs(logits, token_ids, top_counts)

    def in_host_memory(self, logits: Logits) -> NDArray[np.float32]:
        with on_device(self._device):
            return self._sampler.in_host_memory(logits)

    def fit(self, logits: Logits, vocabulary_size: int) -> Logits:
        with on_device(self._device):
            return self._sampler.fit(logits, vocabulary_size)
