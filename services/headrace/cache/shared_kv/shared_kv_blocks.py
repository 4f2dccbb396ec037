"""The Protocol of a store of KV blocks, and the keys of its records."""

from collections.abc import Sequence
from typing import Protocol

from headrace.errors import InvalidRequest
from headrace.kv.block_hash import HASH_SIZE

MAX_LAYOUT_LENGTH = 64
MAX_NAMES = 8192
"""Maximum number of blocks that one call may name."""
PACKET_BYTES = 2 << 20
"""Maximum bytes of records in one message, unless a single record is larger."""
MAX_RECORD_BYTES = 33 << 20
"""Largest record: the largest block that a message carries, with its header."""


class SharedBlocks(Protocol):
    """Records of KV blocks by key. None of the methods raises for a fault of a disk or a network: what cannot be read
    is absent, and what cannot be written is dropped."""

    async def held(self, keys: Sequence[bytes]) -> int:
        """Returns the number of records at the beginning of `keys` that are here."""

    async def wanted(self, keys: Sequence[bytes]) -> list[bytes]:
        """Returns the keys that the store lacks and would keep."""

    async def read(self, keys: Sequence[bytes]) -> list[bytes]:
        """Returns the records at the beginning of `keys` that are here: as many as fit PACKET_BYTES, or one."""

    async def write(self, records: Sequence[tuple[bytes, bytes]], seconds: float) -> int:
        """Keeps records by their keys, each in the place of an earlier one of its key. `seconds`: time in which one of
        their blocks is computed, 0 where it is not known. Returns their number, which is 0 where they were dropped."""

    async def close(self) -> None:
        """Ends all calls, and closes the store."""


def keys_of(layout: str, names: Sequence[bytes]) -> list[bytes]:
    """Returns the keys of blocks. Raises InvalidRequest for a layout or a name that no worker has."""
    if not 0 < len(layout) <= MAX_LAYOUT_LENGTH or not layout.isalnum() or not layout.isascii():
        raise InvalidRequest("block_layout is a digest of letters and digits", param="block_layout")
    if len(names) > MAX_NAMES or any(len(name) != HASH_SIZE for name in names):
        raise InvalidRequest(f"at most {MAX_NAMES} hashes of {HASH_SIZE} bytes name blocks", param="block_hashes")
    prefix = layout.encode()
    return [prefix + name for name in names]


def name_in(key: bytes) -> bytes:
    """Returns the name of the block that a key is of."""
    return key[-HASH_SIZE:]
