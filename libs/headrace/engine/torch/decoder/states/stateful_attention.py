"""Attention over a paged KV cache, with the states that other layers keep beside it."""

from torch import Tensor

from headrace.engine.contract.state_slots import StateSlots
from headrace.engine.step.step_arrays import StepArrays
from headrace.engine.torch.attention.paged_attention import PagedAttention
from headrace.engine.torch.decoder.states.state_arena import StateArena, StateLayer
from headrace.engine.torch.decoder.states.state_step import StateStep


class StatefulAttention:
    """Implements the Protocol of `paged_attention.py` by another, and prepares the states of each step."""

    def __init__(self, attention: PagedAttention, arena: StateArena) -> None:
        """Puts states beside `attention`. Blocks of such a model cannot be copied, as they are not all that its next
        token depends on: so there is no block store."""
        self.block_count = attention.block_count
        self._attention = attention
        self._arena = arena
        self._step: StateStep | None = None

    @property
    def byte_count(self) -> int:
        return self._attention.byte_count

    @property
    def state_bytes(self) -> int:
        """Size of all states in bytes."""
        return self._arena.byte_count

    @property
    def slots(self) -> StateSlots:
        """Places for states."""
        return self._arena.slots

    @property
    def step(self) -> StateStep:
        """States of the step that is computed."""
        if self._step is None:
            raise RuntimeError("no step has begun")
        return self._step

    def layer(self, index: int) -> StateLayer:
        """Returns the states of a layer, by its number among the layers with a state."""
        return self._arena.layers[index]

    def begin(self, arrays: StepArrays) -> None:
        self._attention.begin(arrays)
        self._step = self._arena.lay_out(arrays)

    def attend(self, layer: int, projected: Tensor) -> Tensor:
        return self._attention.attend(layer, projected)

    def clear(self, blocks: list[int]) -> None:
        self._attention.clear(blocks)

    def release(self) -> None:
        self._attention.release()
        self._arena.release()

    def allocate(self) -> None:
        self._attention.allocate()
        self._arena.allocate()


def states_of(attention: PagedAttention) -> StatefulAttention:
    """Returns attention as that of a model with states. Raises TypeError if it has none."""
    if not isinstance(attention, StatefulAttention):
        raise TypeError(f"a layer keeps a state, but {type(attention).__name__} has none")
    return attention
