"""A part of a module's weight that can be read without the rest."""

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from headrace.engine.checkpoints.facts.scheme import Method
from headrace.engine.checkpoints.formats.bit_packing import WORD_BITS

BYTE_BITS = 8


class Axis(enum.Enum):
    """Meanings of a dimension of a stored tensor."""

    OUTPUTS = enum.auto()
    INPUTS = enum.auto()
    OUTPUT_WORDS = enum.auto()
    """Words into which codes are packed along outputs."""
    INPUT_WORDS = enum.auto()
    INPUT_BYTES = enum.auto()
    GROUPS = enum.auto()
    """Groups of inputs."""
    BLOCKS = enum.auto()
    """Blocks of outputs that share their scales."""


AXES: dict[Method, dict[str, tuple[Axis, ...]]] = {
    "awq": {
        "qweight": (Axis.INPUTS, Axis.OUTPUT_WORDS),
        "qzeros": (Axis.GROUPS, Axis.OUTPUT_WORDS),
        "scales": (Axis.GROUPS, Axis.OUTPUTS),
    },
    "gptq": {
        "qweight": (Axis.INPUT_WORDS, Axis.OUTPUTS),
        "qzeros": (Axis.GROUPS, Axis.OUTPUT_WORDS),
        "scales": (Axis.GROUPS, Axis.OUTPUTS),
        "g_idx": (Axis.INPUTS,),
    },
    "compressed-tensors": {
        "weight_packed": (Axis.OUTPUTS, Axis.INPUT_WORDS),
        "weight": (Axis.OUTPUTS, Axis.INPUTS),
        "weight_scale": (Axis.OUTPUTS, Axis.GROUPS),
        "weight_zero_point": (Axis.OUTPUT_WORDS, Axis.GROUPS),
    },
    "float-quantized": {
        "weight": (Axis.OUTPUTS, Axis.INPUTS),
        "weight_scale": (Axis.BLOCKS, Axis.GROUPS),
    },
    "fp4-pack-quantized": {
        "weight_packed": (Axis.OUTPUTS, Axis.INPUT_BYTES),
        "weight_scale": (Axis.OUTPUTS, Axis.GROUPS),
    },
    "fp8": {
        "weight": (Axis.OUTPUTS, Axis.INPUTS),
        "weight_scale_inv": (Axis.BLOCKS, Axis.GROUPS),
    },
}
"""Dimensions of the tensors of a module, by their names after the module's."""


@dataclass(frozen=True, slots=True)
class WeightCut:
    """Some outputs and inputs of a weight."""

    whole: tuple[int, int]
    """Outputs and inputs that the weight has."""
    outputs: tuple[range, ...]
    """Runs of outputs, in the order in which they are wanted."""
    inputs: range

    @property
    def shape(self) -> tuple[int, int]:
        """Outputs and inputs of the part."""
        return sum(map(len, self.outputs)), len(self.inputs)

    @property
    def has_all_inputs(self) -> bool:
        return len(self.inputs) == self.whole[1]

    def stored(self, axis: Axis, size: int, bits: int, group_size: int, block_rows: int) -> tuple[range, ...] | None:
        """Returns the runs along a dimension of `size` that hold the part. None: other numbers share their words or
        groups, or the size is not the one that the format implies."""
        takes_outputs = axis in (Axis.OUTPUTS, Axis.OUTPUT_WORDS, Axis.BLOCKS)
        runs = self.outputs if takes_outputs else (self.inputs,)
        stored, each = 1, 1
        if axis in (Axis.OUTPUT_WORDS, Axis.INPUT_WORDS):
            stored, each = bits, WORD_BITS
        elif axis is Axis.INPUT_BYTES:
            stored, each = bits, BYTE_BITS
        elif axis is Axis.GROUPS:
            each = group_size
        elif axis is Axis.BLOCKS:
            each = block_rows
        if self.whole[0 if takes_outputs else 1] * stored != size * each:
            return None
        if any(bound * stored % each for run in runs for bound in (run.start, run.stop)):
            return None
        return tuple(range(run.start * stored // each, run.stop * stored // each) for run in runs)


def runs_of(places: Sequence[int]) -> tuple[range, ...]:
    """Returns the runs of consecutive numbers that places are made of, in their order."""
    starts = [at for at, place in enumerate(places) if at == 0 or place != places[at - 1] + 1]
    ends = [*starts[1:], len(places)]
    return tuple(range(places[start], places[start] + end - start) for start, end in zip(starts, ends, strict=True))
