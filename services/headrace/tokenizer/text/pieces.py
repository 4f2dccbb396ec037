"""Bytes of every token id, from which text can be put together without the tokenizer.

Two families cover the decoders of today's language models: byte-level BPE (Radford et al., 2019), where each character
of a token stands for a byte, and SentencePiece BPE with byte fallback, where `▁` is a space and `<0x0A>` a byte."""

import json
import re
from dataclasses import dataclass

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
    kinds = _decoder_kinds(definition.get("decoder"))
    if "ByteLevel" in kinds:
        to_bytes = _byte_level
    elif "ByteFallback" in kinds or "Metaspace" in kinds:
        to_bytes = _sentence_piece
    else:
        raise Unsupported(f"decoder {'+'.join(kinds) or 'none'} is not supported; supported: ByteLevel, ByteFallback")
    added = {token["id"]: token for token in definition.get("added_tokens", [])}
    size = max([*tokenizer.get_vocab(with_added_tokens=True).values(), -1]) + 1
    pieces = []
    for token_id in range(size):
        token = tokenizer.id_to_token(token_id)
        pieces.append(b"" if token is None else token.encode() if token_id in added else to_bytes(token))
    special = sorted(token_id for token_id, token in added.items() if token["special"])
    return Pieces(pieces, special, "Strip" in kinds or "Metaspace" in kinds)


def _decoder_kinds(decoder: dict[str, object] | None) -> list[str]:
    if decoder is None:
        return []
    members = decoder.get("decoders")
    if isinstance(members, list):
        return [kind for member in members for kind in _decoder_kinds(member)]
    return [str(decoder["type"])]


def _byte_alphabet() -> dict[str, int]:
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + index): byte for index, byte in enumerate(others)}


_ALPHABET = _byte_alphabet()


def _byte_level(token: str) -> bytes:
    if all(character in _ALPHABET for character in token):
        return bytes(_ALPHABET[character] for character in token)
    return token.encode()


def _sentence_piece(token: str) -> bytes:
    if match := _BYTE_TOKEN.fullmatch(token):
        return bytes([int(match[1], 16)])
    return token.replace(_WORD_START, " ").encode()
