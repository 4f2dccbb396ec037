"""Bound on the text that one token stands for: a text far beyond it need not be encoded to be refused."""

import json
from collections.abc import Iterator
from typing import Any

from tokenizers import Tokenizer
from tokenizers.pre_tokenizers import ByteLevel

COMPOSED = 4
"""Maximum number of characters that Unicode's composition (NFC) combines into one, such as alpha with breathing, accent
and iota."""


def longest_piece(tokenizer: Tokenizer) -> int | None:
    """Maximum number of characters that a token can stand for. None where a token may stand for any number: the
    tokenizer drops characters, or takes several that it does not know for one."""
    definition = json.loads(tokenizer.to_str())
    normalizers = list(_members(definition.get("normalizer"), "normalizers"))
    pre_tokenizers = list(_members(definition.get("pre_tokenizer"), "pretokenizers"))
    keeps_all = (
        all(_keeps_length(step) for step in normalizers)
        and all(_splits_only(step) for step in pre_tokenizers)
        and not any(token["lstrip"] or token["rstrip"] for token in definition.get("added_tokens", []))
        and _knows_every_byte(definition["model"], {step["type"] for step in pre_tokenizers})
    )
    if not keeps_all:
        return None
    longest = max(map(len, tokenizer.get_vocab(with_added_tokens=True)))
    return longest * (COMPOSED if any(step["type"] == "NFC" for step in normalizers) else 1)


def _members(step: dict[str, Any] | None, name: str) -> Iterator[dict[str, Any]]:
    """Yields the steps that a sequence of steps consists of, in order."""
    if step is None:
        return
    if step["type"] != "Sequence":
        yield step
        return
    for member in step[name]:
        yield from _members(member, name)


def _keeps_length(normalizer: dict[str, Any]) -> bool:
    if normalizer["type"] == "Replace":
        replaced = normalizer["pattern"].get("String")
        return replaced is not None and len(normalizer["content"]) >= len(replaced)
    return normalizer["type"] in ("NFC", "Prepend")


def _splits_only(pre_tokenizer: dict[str, Any]) -> bool:
    if pre_tokenizer["type"] in ("Split", "Punctuation"):
        return bool(pre_tokenizer["behavior"] != "Removed")
    return pre_tokenizer["type"] in ("ByteLevel", "Digits", "Metaspace")


def _knows_every_byte(model: dict[str, Any], pre_tokenizers: set[str]) -> bool:
    if model["type"] != "BPE":
        return False
    if "ByteLevel" in pre_tokenizers:
        return all(character in model["vocab"] for character in ByteLevel.alphabet())
    return bool(model.get("byte_fallback")) and all(f"<0x{byte:02X}>" in model["vocab"] for byte in range(256))
