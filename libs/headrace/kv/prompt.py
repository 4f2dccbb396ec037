"""Prompt of a request, as its KV blocks are named."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Prompt:
    """Everything that decides which KV blocks a prompt has."""

    model: str
    token_ids: tuple[int, ...]
    cache_salt: str
    adapter: str
