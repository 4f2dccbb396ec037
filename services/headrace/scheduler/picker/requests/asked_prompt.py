"""Prompt of a request, read from its body as far as a choice of endpoints goes by it."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from headrace.errors import InvalidRequest

TOKEN_BYTES = 4
"""Bytes of text taken to be a token."""
PIECE_BYTES = 256
"""Bytes of a piece of a prompt: as many as the tokens of a block of the pool's endpoints."""
MAX_PIECES = 512
"""Leading pieces of a prompt that are hashed."""
MAX_TOKENS = 1_000_000
DEFAULT_MAX_TOKENS = 1024
"""Output tokens assumed of a request that names no limit."""
_LIMITS = ("max_completion_tokens", "max_tokens", "max_output_tokens")
_PROMPTS = ("tools", "system", "instructions", "messages", "prompt", "input", "text", "query", "documents")
"""Fields that make up a prompt, in the order in which they usually stand in it."""


@dataclass(frozen=True, slots=True)
class AskedPrompt:
    """Figures of a prompt. Its text is not kept."""

    token_count: int = 1
    """Tokens, estimated from the length."""
    max_token_count: int = DEFAULT_MAX_TOKENS
    is_streamed: bool = False
    chain: tuple[int, ...] = ()
    """Hash of each leading piece, with all before it."""


def read_prompt(body: bytes) -> AskedPrompt:
    """Reads the JSON body of a request. Raises InvalidRequest."""
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deep" if isinstance(error, RecursionError) else str(error)
        raise InvalidRequest(f"the body is not valid JSON: {reason}") from None
    if not isinstance(asked, dict):
        raise InvalidRequest("the body must be a JSON object")
    text = "\n".join(_texts(asked)).encode("utf-8", "surrogatepass")
    salt = f"{asked.get('model')}\0{asked.get('cache_salt')}".encode("utf-8", "surrogatepass")
    return AskedPrompt(
        token_count=max(1, min(MAX_TOKENS, len(text) // TOKEN_BYTES)),
        max_token_count=_max_token_count(asked),
        is_streamed=asked.get("stream") is True,
        chain=_chain(salt, text),
    )


def _max_token_count(asked: Mapping[str, Any]) -> int:
    for name in _LIMITS:
        value = asked.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return min(MAX_TOKENS, value)
    return DEFAULT_MAX_TOKENS


def _texts(asked: Mapping[str, Any]) -> Iterator[str]:
    """Yields the texts of a prompt in their order. Anything that is no message is taken as it is written."""
    for name in _PROMPTS:
        value = asked.get(name)
        if value is None:
            continue
        for entry in value if isinstance(value, list) else [value]:
            if isinstance(entry, dict) and isinstance(entry.get("content"), str):
                # Fields beside these seldom are part of the prompt, and their order may change.
                calls = entry.get("tool_calls")
                yield f"{entry.get('role')}\n{entry['content']}{json.dumps(calls) if calls else ''}"
            else:
                yield entry if isinstance(entry, str) else json.dumps(entry, ensure_ascii=False)


def _chain(salt: bytes, text: bytes) -> tuple[int, ...]:
    """Hashes the whole pieces that the text begins with."""
    chain: list[int] = []
    before = blake2b(salt, digest_size=8).digest()
    for start in range(0, min(len(text) // PIECE_BYTES, MAX_PIECES) * PIECE_BYTES, PIECE_BYTES):
        before = blake2b(before + text[start : start + PIECE_BYTES], digest_size=8).digest()
        chain.append(int.from_bytes(before, "big"))
    return tuple(chain)
