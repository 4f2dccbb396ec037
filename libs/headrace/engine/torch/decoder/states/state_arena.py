"""Memory for the states of sequences."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from headrace.engine.checkpoints.facts.states.state_config import StateConfig
from headrace.engine.contract.state_slots import StateSlots
from headrace.engine.memory.aligned import allocate
from headrace.engine.step.step_arrays import StepArrays
from headrace.engine.torch.decoder.states.state_step import StateStep

ITEM_BYTES = torch.float32.itemsize


@dataclass(frozen=True, slots=True)
class StateLayer:
    """States of one layer, by slot. All fp32: a recurrent state is the sum of a whole text."""

    tails: Tensor
    """Last inputs of the convolution [slots, taps - 1, channels], the oldest first."""
    memories: Tensor
    """Recurrent states [slots, heads, rows, columns]."""

    def memory(self, slot: int) -> Tensor:
        """Returns a copy of a recurrent state [heads, rows, columns]: zeros for slot -1."""
        return torch.zeros_like(self.memories[0]) if slot < 0 else self.memories[slot].clone()


class StateArena:
    """The states of all layers, in a number of slots that never changes."""

    def __init__(self, states: StateConfig, slots: StateSlots, device: torch.device) -> None:
        self.slots = slots
        self._states = states
        self._device = device
        self.layers: list[StateLayer] = []
        self.allocate()

    @property
    def byte_count(self) -> int:
        """Size of all slots in bytes."""
        return self.slots.count * slot_bytes(self._states)

    def allocate(self) -> None:
        """Allocates zeroed memory for all layers."""
        mixer, count = self._states.mixer, self.slots.count
        self.layers = [
            StateLayer(self._zeros((count, *mixer.tail_shape)), self._zeros((count, *mixer.memory_shape)))
            for _ in self._states.layers
        ]

    def lay_out(self, arrays: StepArrays) -> StateStep:
        """Lays a step out for the sizes of these states."""
        return StateStep.of(arrays, self.slots.spare, self._states.mixer.tail_shape[0] + 1, self._device)

    def release(self) -> None:
        """Frees the memory and discards its content, until `allocate`."""
        self.layers = []
        if self._device.type == "cuda":
            torch.cuda.empty_cache()

    def _zeros(self, shape: tuple[int, ...]) -> Tensor:
        """Allocates zeros. On a CPU, the system provides memory only for the slots that are used, and has it back."""
        size = math.prod(shape)
        if self._device.type != "cpu" or not size:
            return torch.zeros(shape, device=self._device)
        return torch.from_numpy(allocate(size * ITEM_BYTES)).view(torch.float32).view(shape)


def slot_bytes(states: StateConfig) -> int:
    """Returns the size of a slot, in bytes."""
    return states.number_count * ITEM_BYTES
