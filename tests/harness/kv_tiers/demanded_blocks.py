"""Prompts, and the contents that KV blocks of their tokens must have."""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b, shake_128

from headrace.kv.block_hash import HASH_SIZE

BLOCK_SIZE = 16
"""Tokens of a block, where a format does not say."""
VOCABULARY = 1 << 30


@dataclass(frozen=True, slots=True)
class Prompt:
    """Tokens of a tenant for an adapter."""

    token_ids: tuple[int, ...]
    tenant: str = ""
    adapter: str = ""

    def block_count(self, block_size: int) -> int:
        """Returns the number of blocks that may be cached: the last token is in none."""
        return (len(self.token_ids) - 1) // block_size


@dataclass(frozen=True, slots=True)
class BlockFormat:
    """Everything but the tokens that the bytes of a block depend on."""

    weights: str
    numbers: str
    block_bytes: int
    block_size: int = BLOCK_SIZE


@lru_cache(1 << 12)
def demanded_blocks(made: BlockFormat, prompt: Prompt) -> tuple[bytes, ...]:
    """Returns `made_blocks` as a tuple, which is remembered."""
    return tuple(made_blocks(made, prompt))


def made_blocks(made: BlockFormat, prompt: Prompt) -> Iterator[bytes]:
    """Yields the content of each block. It depends on all tokens up to the block's end, on the adapter, the weights
    and the number format, and on the tenant: a block of another tenant is always another one."""
    facts = repr((made.weights, made.numbers, prompt.tenant, prompt.adapter)).encode()
    parent, size = blake2b(facts, digest_size=HASH_SIZE).digest(), made.block_size
    for index in range(prompt.block_count(size)):
        tokens = array("I", prompt.token_ids[index * size : (index + 1) * size]).tobytes()
        parent = blake2b(parent + tokens, digest_size=HASH_SIZE).digest()
        yield shake_128(parent).digest(made.block_bytes)
