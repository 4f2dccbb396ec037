"""Ids of the blocks that prompts begin with, for traces of traffic."""

import os
import secrets
import struct
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

from headrace.errors import ConfigError

BLOCK_TOKENS = 512
"""Tokens of a block, as in Mooncake's traces (Qin et al., FAST 2025)."""
KEY_BYTES = 32
KEY_NAME = ".prompt-blocks.key"
MODE = 0o600
_ID_BITS = 0x7FFFFFFF


class PromptBlocks:
    """Names blocks by their tokens, those before them, tenant and model. Names are equal where all of these are, and
    say nothing about a text to those who lack the key."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    @classmethod
    def open(cls, folder: Path) -> "PromptBlocks":
        """Reads the key that all gateways of a folder share, or makes it. Raises ConfigError."""
        path = folder / KEY_NAME
        try:
            _make_key(path)
            key = path.read_bytes()
        except OSError as error:
            raise ConfigError(f"cannot use {path}: {error.strerror}", param="usage_prompt_blocks") from None
        if len(key) != KEY_BYTES:
            raise ConfigError(f"{path} is no key of {KEY_BYTES} bytes: delete it", param="usage_prompt_blocks")
        return cls(key)

    def ids(self, tenant: str, model: str, token_ids: Sequence[int]) -> tuple[int, ...]:
        """Returns the ids, of 31 bits, of all whole blocks of a prompt. Two different blocks have the same one by
        chance, once in two billion."""
        found = []
        parent = blake2b(f"{tenant}\0{model}".encode(), key=self._key).digest()
        for start in range(0, len(token_ids) - BLOCK_TOKENS + 1, BLOCK_TOKENS):
            tokens = struct.pack(f"<{BLOCK_TOKENS}I", *token_ids[start : start + BLOCK_TOKENS])
            parent = blake2b(parent + tokens, key=self._key).digest()
            found.append(int.from_bytes(parent[:4], "little") & _ID_BITS)
        return tuple(found)


def _make_key(path: Path) -> None:
    """Makes the file of a key, whole from its first moment, unless there is one."""
    if path.exists():
        return
    own = path.with_name(f"{KEY_NAME}.{secrets.token_hex(8)}")
    descriptor = os.open(own, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, MODE)
    try:
        os.write(descriptor, secrets.token_bytes(KEY_BYTES))
    finally:
        os.close(descriptor)
    try:
        os.link(own, path)
    except FileExistsError:
        pass
    finally:
        own.unlink()
