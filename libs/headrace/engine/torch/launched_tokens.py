"""Tokens of a step that a device still computes."""

from typing import Self

import torch
from torch import Tensor

from headrace.engine.batching.step_plan import Chunk
from headrace.engine.torch.device.host_copy import HostCopy


class LaunchedTokens:
    """Implements the Protocol of `launched_step.py`."""

    def __init__(self, sampled: tuple[Chunk, ...], numbers: HostCopy) -> None:
        self.sampled = sampled
        self._numbers = numbers

    @classmethod
    def of(cls, sampled: tuple[Chunk, ...], ids: Tensor, peaks: Tensor) -> Self:
        """Begins to copy the chosen tokens [rows] and the highest logits [rows], both in one copy: fp64 holds either
        exactly."""
        return cls(sampled, HostCopy(torch.stack([ids.double(), peaks.double()])))

    def wait(self) -> tuple[list[int], list[float]]:
        ids, peaks = self._numbers.wait().tolist()
        return [int(token_id) for token_id in ids], peaks
