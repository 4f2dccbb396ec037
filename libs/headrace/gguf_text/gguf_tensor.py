"""Tensor of a GGUF file: its shape, and where its data lie."""

import math
from dataclasses import dataclass

_KINDS = {
    0: ("F32", 1, 4),
    1: ("F16", 1, 2),
    2: ("Q4_0", 32, 18),
    3: ("Q4_1", 32, 20),
    6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24),
    8: ("Q8_0", 32, 34),
    10: ("Q2_K", 256, 84),
    11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144),
    13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210),
    30: ("BF16", 1, 2),
}
"""Name, columns and bytes of a block, by ggml's number of its type: of the types that most files use."""


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """One tensor of a file."""

    name: str
    kind: str
    """Name of its type, as ggml has it."""
    shape: tuple[int, ...]
    """Sizes, outermost dimension first. A file lists them last."""
    row_bytes: int
    """Bytes of one row, which are whole blocks."""
    offset: int
    """Place of its data in the file, in bytes."""

    @classmethod
    def of(cls, name: str, number: int, shape: tuple[int, ...], offset: int) -> "GgufTensor":
        """Makes a tensor of ggml's type `number`. Raises ValueError for a type that does not exist, and for rows that
        are not whole blocks."""
        kind, columns, block_bytes = _KINDS.get(number) or _rare_kind(number)
        if not shape or shape[-1] % columns:
            raise ValueError(f"tensor {name} of shape {list(shape)} is not made of blocks of {columns}")
        return cls(name, kind, shape, shape[-1] // columns * block_bytes, offset)

    @property
    def byte_count(self) -> int:
        """Size of its data, in bytes."""
        return math.prod(self.shape[:-1]) * self.row_bytes


def _rare_kind(number: int) -> tuple[str, int, int]:
    # Importing it takes a tenth of a second, and files of the types above do without.
    import gguf

    kind = gguf.GGMLQuantizationType(number)
    return (kind.name, *gguf.GGML_QUANT_SIZES[kind])
