"""Plain weights in the type that a checkpoint has them in."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.engine.checkpoints.weights.number_rounding import round_numbers
from headrace.engine.kernels.storage import Storage

Numbers = NDArray[np.generic]


@dataclass(frozen=True, slots=True)
class StoredArrays:
    """A plain weight [out, in] that is converted, or rounded to codes, only while it is packed. Its numbers may be
    mapped from a file."""

    parts: tuple[Numbers, ...]
    """Rows of the weight [., in], one part after the other. bfloat16 is int16, which numpy has."""
    storage: Storage
    """Type of the numbers: F32, BF16 or F16."""
    bits: int | None = None
    """Bits of the codes that the weight is rounded to; None: it stays plain."""
    group_size: int = 0
    """Inputs that share a scale."""

    @property
    def row_count(self) -> int:
        return sum(len(part) for part in self.parts)

    @property
    def in_size(self) -> int:
        return int(self.parts[0].shape[1])

    def values(self) -> NDArray[np.float32]:
        """Returns the numbers in fp32."""
        whole = self.whole()
        if self.storage is Storage.BF16:
            return (whole.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)
        return whole.astype(np.float32, copy=False)

    def whole(self) -> Numbers:
        """Returns the numbers as one array."""
        return self.parts[0] if len(self.parts) == 1 else np.concatenate(self.parts)

    def rounded_to(self, storage: Storage) -> "StoredArrays":
        """Returns the plain weight in BF16 or F16. Raises OverflowError if a number is beyond the type's range."""
        return self if storage is self.storage else StoredArrays((round_numbers(self.values(), storage),), storage)

    def is_like(self, other: "StoredArrays") -> bool:
        """Whether both can be parts of one weight."""
        facts = (self.storage, self.bits, self.group_size)
        return facts == (other.storage, other.bits, other.group_size)
