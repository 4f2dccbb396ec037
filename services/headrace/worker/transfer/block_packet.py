"""KV blocks as they travel."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self
from zlib import crc32


@dataclass(frozen=True, slots=True)
class BlockPacket:
    """Consecutive blocks of one prompt, each with its checksum."""

    first_index: int
    """Index of the first of them in the prompt."""
    contents: Sequence[bytes]
    checksums: Sequence[int]
    """CRC-32 of each block's hash and content, so that a block under another one's name is noticed too."""

    @classmethod
    def of(cls, first_index: int, hashes: Sequence[bytes], contents: Sequence[bytes]) -> Self:
        """Adds the checksums."""
        return cls(first_index, contents, [_checksum(*pair) for pair in zip(hashes, contents, strict=True)])

    @property
    def byte_count(self) -> int:
        return sum(map(len, self.contents))

    def is_intact(self, hashes: Sequence[bytes]) -> bool:
        """Whether the blocks are the ones that `hashes` name, bit by bit as they were sent."""
        if not 0 < len(self.contents) == len(hashes):
            return False
        return self.checksums == [_checksum(*pair) for pair in zip(hashes, self.contents, strict=True)]


def _checksum(block_hash: bytes, content: bytes) -> int:
    return crc32(content, crc32(block_hash))
