"""Names KV blocks by content: a block's hash covers its own tokens and, through its parent, all tokens before it."""

import struct
from collections.abc import Sequence
from hashlib import blake2b

HASH_SIZE = 16
"""Bytes of a block hash."""


def root_hash(cache_salt: str, adapter: str = "") -> bytes:
    """The parent of a prompt's first block. It carries the salt and the adapter's name: where either is another one, no
    block is shared."""
    salt = blake2b(adapter.encode(), digest_size=blake2b.SALT_SIZE).digest() if adapter else b""
    return blake2b(cache_salt.encode(), digest_size=HASH_SIZE, person=b"headrace-root", salt=salt).digest()


def chain_hash(parent: bytes, token_ids: Sequence[int]) -> bytes:
    """The hash of one full block that follows `parent`."""
    tokens = struct.pack(f"<{len(token_ids)}I", *token_ids)
    return blake2b(parent + tokens, digest_size=HASH_SIZE).digest()


def hash_blocks(
    token_ids: Sequence[int], block_size: int, cache_salt: str, adapter: str = "", known: Sequence[bytes] = ()
) -> list[bytes]:
    """Chained hashes of the full blocks of `token_ids`, in order.

    `known` are the hashes of the first blocks, where already computed.
    """
    hashes = list(known)
    parent = hashes[-1] if hashes else root_hash(cache_salt, adapter)
    for start in range(len(hashes) * block_size, len(token_ids) - block_size + 1, block_size):
        parent = chain_hash(parent, token_ids[start : start + block_size])
        hashes.append(parent)
    return hashes
