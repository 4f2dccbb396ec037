"""The canonical form of a quantized weight in numpy's arrays, whatever the file format, and blocks of GGUF as they are.
Both are read without torch."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from headrace.engine.checkpoints.weights.code_numbers import code_numbers
from headrace.engine.checkpoints.weights.stored_arrays import StoredArrays
from headrace.engine.kernels.packed_weight import GROUPS
from headrace.engine.kernels.storage import BLOCKS, Storage

NO_EXPONENT = 255
"""Scale of MXFP4 that is no number."""
Floats = NDArray[np.float32]
Codes = NDArray[np.uint8]
_SCALE_PLACES = {Storage.Q6_K: (208, 210), **dict.fromkeys((Storage.Q4_0, Storage.Q5_0, Storage.Q8_0), (0, 2))}
"""Begin and end of the fp16 scales within a block of each kind, in bytes. Others have two scales at the beginning."""


@dataclass(frozen=True, slots=True)
class QuantizedArrays:
    """A weight [out, in] as codes with a scale and a zero point per row and group of inputs.

    W[n, input_order[k]] = (number(codes[n, k]) - number(zeros[n, g])) * scales[n, g]  with  g = k // group_size

    The number of a code is the code as an integer, or as a float: see `code_numbers`. Floats have zero points of 0.
    Blocks of GGUF with minima have offsets in their place: W[n, k] = codes[n, k] * scales[n, g] + zeros[n, g].
    """

    codes: Codes
    """Codes [out, in], each below 2**bits."""
    scales: Floats
    """Scales [out, groups]."""
    zeros: Codes | Floats
    """Codes that represent 0, or offsets fp32 [out, groups]."""
    bits: int
    group_size: int
    """Inputs that share a scale. The last group may be shorter."""
    input_order: NDArray[np.int64] | None = None
    """Input index of each column of `codes` [in], for groups that are not contiguous inputs. None: in order."""
    is_float: bool = False
    """Whether codes are floating-point numbers."""

    @property
    def has_offsets(self) -> bool:
        return self.zeros.dtype == np.float32

    def dequantize(self) -> Floats:
        """Returns the weight [out, in]. Without offsets it is exact: codes and zero points have at most 8 bits, so the
        only rounding is to fp32."""
        groups = np.arange(self.codes.shape[1]) // self.group_size
        numbers = code_numbers(self.bits, is_float=self.is_float)
        weight: Floats
        if self.has_offsets:
            weight = numbers[self.codes] * self.scales[:, groups] + self.zeros[:, groups]
        else:
            weight = (numbers[self.codes] - numbers[self.zeros][:, groups]) * self.scales[:, groups]
        if self.input_order is None:
            return weight
        restored = np.empty_like(weight)
        restored[:, self.input_order] = weight
        return restored


@dataclass(frozen=True, slots=True)
class BlockRun:
    """Consecutive rows of a weight in blocks of one kind."""

    parts: tuple[NDArray[np.uint8], ...]
    """Blocks of each row [rows, bytes], in arrays that follow each other. They may lie in a mapped file."""
    storage: Storage

    @property
    def row_count(self) -> int:
        return sum(map(len, self.parts))

    def has_finite_scales(self) -> bool:
        """Whether all numbers that the blocks stand for are finite."""
        begin, end = _SCALE_PLACES.get(self.storage, (0, 4))
        for part in self.parts:
            each = part.reshape(-1, BLOCKS[self.storage].file_bytes)
            if self.storage is Storage.MXFP4:
                if (each[:, 0] == NO_EXPONENT).any():
                    return False
                continue
            if ((each[:, begin + 1 : end : 2] & 0x7C) == 0x7C).any():
                return False
        return True


@dataclass(frozen=True, slots=True)
class BlockArrays:
    """A weight [out, in] whose rows are blocks, of one kind in each run of rows."""

    runs: tuple[BlockRun, ...]

    @classmethod
    def stack(cls, weights: Sequence[Self]) -> Self:
        """Stacks the rows of weights that share their inputs. Joins runs of one kind that follow each other."""
        runs: list[BlockRun] = []
        for run in (run for weight in weights for run in weight.runs):
            if runs and runs[-1].storage is run.storage:
                runs[-1] = BlockRun((*runs[-1].parts, *run.parts), run.storage)
            else:
                runs.append(run)
        return cls(tuple(runs))

    def dequantize(self) -> NDArray[np.float32]:
        """Returns the weight [out, in] in fp32, by the arithmetic of ggml."""
        # Other formats are read without it.
        import gguf

        kinds = gguf.GGMLQuantizationType
        return np.concatenate(
            [gguf.dequantize(part, kinds[run.storage.name]) for run in self.runs for part in run.parts]
        )


ArrayWeight = StoredArrays | QuantizedArrays | BlockArrays
"""The weight [out, in] of a product, plain or quantized."""


def stack_arrays(weights: Sequence[ArrayWeight]) -> ArrayWeight:
    """Stacks the rows of weights that share their inputs into one weight. Keeps quantized ones quantized and stored
    ones stored if they are alike, and blocks of any kinds; others become fp32."""
    if len(weights) == 1:
        return weights[0]
    stored = [weight for weight in weights if isinstance(weight, StoredArrays)]
    if len(stored) == len(weights) and all(stored[0].is_like(weight) for weight in stored):
        return replace(stored[0], parts=tuple(part for weight in stored for part in weight.parts))
    matrices = [weight for weight in weights if isinstance(weight, QuantizedArrays)]
    if len(matrices) == len(weights) and all(_is_like(matrices[0], matrix) for matrix in matrices):
        return QuantizedArrays(
            np.concatenate([matrix.codes for matrix in matrices]),
            np.concatenate([matrix.scales for matrix in matrices]),
            np.concatenate([matrix.zeros for matrix in matrices]),
            matrices[0].bits,
            matrices[0].group_size,
            matrices[0].input_order,
            matrices[0].is_float,
        )
    blocks = [weight for weight in weights if isinstance(weight, BlockArrays)]
    if len(blocks) == len(weights):
        return BlockArrays.stack(blocks)
    return StoredArrays((np.concatenate([plain_array(weight) for weight in weights]),), Storage.F32)


def reordered_arrays(weight: ArrayWeight, rows: NDArray[np.int64]) -> ArrayWeight:
    """Takes the rows of a weight at `rows` [rows], a permutation."""
    if isinstance(weight, StoredArrays):
        return replace(weight, parts=(weight.whole()[rows],))
    if isinstance(weight, QuantizedArrays):
        return replace(weight, codes=weight.codes[rows], scales=weight.scales[rows], zeros=weight.zeros[rows])
    return reordered_blocks(weight, rows)


def reordered_blocks(weight: BlockArrays, rows: NDArray[np.int64]) -> BlockArrays:
    """Takes the rows of a weight in blocks, as `reordered_arrays` does. Rows of other kinds may come between those of
    one."""
    firsts = np.cumsum([0, *(run.row_count for run in weight.runs)])
    owners = np.searchsorted(firsts, rows, side="right") - 1
    wholes = [np.concatenate(run.parts) for run in weight.runs]
    taken = []
    for stretch in np.split(np.arange(len(rows)), np.flatnonzero(np.diff(owners)) + 1):
        owner = int(owners[stretch[0]])
        run = BlockRun((wholes[owner][rows[stretch] - firsts[owner]],), weight.runs[owner].storage)
        taken.append(BlockArrays((run,)))
    return BlockArrays.stack(taken)


def plain_array(weight: ArrayWeight) -> Floats:
    """Returns the weight as floating-point numbers."""
    return weight.values() if isinstance(weight, StoredArrays) else weight.dequantize()


def kernel_group_of(group_size: int) -> int | None:
    """Returns the largest group size of the kernels that divides a matrix's own, or None."""
    return next((size for size in GROUPS if group_size % size == 0), None)


def _is_like(first: QuantizedArrays, other: QuantizedArrays) -> bool:
    """Whether both can be rows of the same matrix."""
    if (first.bits, first.group_size, first.is_float) != (other.bits, other.group_size, other.is_float):
        return False
    if first.input_order is None or other.input_order is None:
        return first.input_order is other.input_order
    return np.array_equal(first.input_order, other.input_order)
