"""The memory of a model in which no layer attends: blocks that hold nothing."""

from torch import Tensor

from headrace.engine.step.step_arrays import StepArrays


class NoAttention:
    """Implements the Protocol of `paged_attention.py` for models whose layers all keep states. Blocks are counted, as
    prefixes are found by them."""

    byte_count = 0

    def __init__(self, block_count: int) -> None:
        self.block_count = block_count

    def begin(self, arrays: StepArrays) -> None:
        """Prepares nothing."""

    def attend(self, layer: int, projected: Tensor) -> Tensor:
        raise TypeError(f"no layer attends, but attention of layer {layer} is asked for")

    def clear(self, blocks: list[int]) -> None:
        """Clears nothing."""

    def release(self) -> None:
        """Frees nothing."""

    def allocate(self) -> None:
        """Allocates nothing."""
