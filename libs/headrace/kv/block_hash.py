"""Names KV blocks by content: a block's hash covers its own tokens and, through its parent, all tokens before it."""

import struct
from collections.abc import Iterable, Sequence
from hashlib import blake2b

HASH_SIZE = 16
"""Bytes of a block hash."""


def root_hash(cache_salt: str, adapter: str = "") -> bytes:
    """The parent of a prompt's first block. It carries the salt and the adapter's name: where either is another one, no
    block is shared."""
    salt = blake2b(adapter.encode(), digest_size=blake2b.SALT_SIZE).digest() if adapter else b""
    return blake2b(cache_salt.encode(), digest_size=HASH_SIZE, person=b"headrace-root", salt=salt).digest()


def extend_hashes(hashes: list[bytes], root: bytes, blocks: Iterable[Sequence[int]]) -> None:
    """Appends the hashes of `blocks`, the token ids of full blocks that follow those of `hashes`."""
    parent = hashes[-1] if hashes else root
    for token_ids in blocks:
        tokens = struct.pack(f"<{len(token_ids)}I", *token_ids)
        parent = blake2b(parent + tokens, digest_size=HASH_SIZE).digest()
        hashes.append(parent)


def hash_blocks(token_ids: Sequence[int], block_size: int, cache_salt: str, adapter: str = "") -> list[bytes]:
    """Chained hashes of the full blocks of `token_ids`, in order."""
    hashes: list[bytes] = []
    starts = range(0, len(token_ids) - block_size + 1, block_size)
    extend_hashes(hashes, root_hash(cache_salt, adapter), (token_ids[start : start + block_size] for start in starts))
    return hashes
