"""Bytes of every token id, from which text can be put together without the tokenizer.

Two families cover the decoders of today's language models: byte-level BPE (Radford et al., 2019), where each character
of a token stands for a byte, and SentencePiece BPE with byte fallback, where `▁` is a space and `<0x0A>` a byte."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tokenizers import Tokenizer

from headrace.errors import Unsupported

_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_WORD_START = "▁"


@dataclass(frozen=True, slots=True)
class Pieces:
    """A vocabulary as bytes."""

    pieces: list[bytes]
    """Bytes of each token, by id."""
    special_token_ids: list[int]
    strips_leading_space: bool


def pieces_of(tokenizer: Tokenizer) -> Pieces:
    """Reads the vocabulary. Raises Unsupported for a decoder that does not work token by token."""
    definition = json.loads(tokenizer.to_str())
    steps = _decoder_steps(definition.get("decoder"))
    kinds = [str(step["type"]) for step in steps]
    added = {token["id"]: token for token in definition.get("added_tokens", [])}
    size = max([*tokenizer.get_vocab(with_added_tokens=True).values(), -1]) + 1
    of_added, of_other = _readers(kinds)
    pieces = []
    for token_id in range(size):
        token = tokenizer.id_to_token(token_id)
        pieces.append(b"" if token is None else of_added(token) if token_id in added else of_other(token))
    special = sorted(token_id for token_id, token in added.items() if token["special"])
    return Pieces(pieces, special, any(map(_strips, steps)))


def _readers(kinds: list[str]) -> tuple[Callable[[str], bytes], Callable[[str], bytes]]:
    """Returns what turns added tokens into bytes, and what turns all others. Raises Unsupported."""
    if "ByteLevel" in kinds:
        return str.encode, _byte_level
    if "ByteFallback" in kinds:
        return _byte_fallback, _byte_fallback
    if "Metaspace" in kinds:
        return _words, _words
    raise Unsupported(f"decoder {'+'.join(kinds) or 'none'} is not supported; supported: ByteLevel, ByteFallback")


def _decoder_steps(decoder: dict[str, Any] | None) -> list[dict[str, Any]]:
    if decoder is None:
        return []
    members = decoder.get("decoders")
    if isinstance(members, list):
        return [step for member in members for step in _decoder_steps(member)]
    return [decoder]


def _strips(step: dict[str, Any]) -> bool:
    """Whether a step of a decoder drops the space that a text begins with."""
    if step["type"] == "Metaspace":
        return bool(step.get("prepend_scheme", "always") != "never")
    return bool(step["type"] == "Strip" and step["content"] == " " and step["start"])


def _byte_alphabet() -> dict[str, int]:
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + index): byte for index, byte in enumerate(others)}


_ALPHABET = _byte_alphabet()


def _byte_level(token: str) -> bytes:
    if all(character in _ALPHABET for character in token):
        return bytes(_ALPHABET[character] for character in token)
    return token.encode()


def _byte_fallback(token: str) -> bytes:
    if match := _BYTE_TOKEN.fullmatch(token):
        return bytes([int(match[1], 16)])
    return _words(token)


def _words(token: str) -> bytes:
    return token.replace(_WORD_START, " ").encode()
