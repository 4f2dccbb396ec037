"""Header of a slot in a file of KV blocks."""

import struct
from dataclasses import dataclass
from typing import Self

from xxhash import xxh3_128

HEADER_BYTES = 64
NAME_BYTES = 16
_MAGIC = b"HRKVSLT2"
_FORM = struct.Struct(f"<8s{NAME_BYTES}s{NAME_BYTES}s")
EMPTY = bytes(HEADER_BYTES)
"""Header of a slot that holds nothing, or something half written."""


@dataclass(frozen=True, slots=True)
class SlotHeader:
    """Name of a block, and a checksum of name and content."""

    name: bytes
    checksum: bytes

    @classmethod
    def of(cls, name: bytes, content: bytes, layout: bytes) -> Self:
        """Makes the header of a block. The checksum, XXH3 of 128 bits, begins with `layout`: a block of another model,
        other weights, adapters or number formats does not fit."""
        checksum = xxh3_128(bytes([len(layout)]) + layout + name)
        checksum.update(content)
        return cls(name, checksum.digest())

    @classmethod
    def read(cls, data: bytes) -> Self | None:
        """Reads a header. None: there is none."""
        if len(data) != HEADER_BYTES:
            return None
        magic, name, checksum = _FORM.unpack_from(data)
        return cls(name, checksum) if magic == _MAGIC else None

    def data(self) -> bytes:
        """Returns the header as a file has it."""
        return _FORM.pack(_MAGIC, self.name, self.checksum).ljust(HEADER_BYTES, b"\0")

    def fits(self, name: bytes, content: bytes, layout: bytes) -> bool:
        """Whether a slot holds the block `name`, bit by bit as it was written."""
        return self == SlotHeader.of(name, content, layout)
