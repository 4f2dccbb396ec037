"""Cuts a text into token sequences of equal length."""

from pathlib import Path

from tokenizers import Tokenizer

from headrace.engine.checkpoints.files.gguf_path import is_gguf
from headrace.errors.tree import ConfigError
from headrace.folder_text.folder_tokenizer import read_tokenizer
from headrace.gguf_text.gguf_tokenizer import GgufText


def cut_windows(text: str, source: Path, length: int, limit: int | None = None) -> list[tuple[int, ...]]:
    """Returns at most `limit` sequences of `length` tokens, each with the tokenizer's usual start of a text. A shorter
    text becomes one sequence. Raises InvalidCheckpoint, or ConfigError if there is nothing to score."""
    tokenizer = _read_tokenizer(source)
    start = tokenizer.encode("").ids
    token_ids = tokenizer.encode(text, add_special_tokens=False).ids
    step = length - len(start)
    windows = [(*start, *token_ids[first : first + step]) for first in range(0, len(token_ids), step)]
    whole = [window for window in windows if len(window) == length] or windows[:1]
    if not whole or len(whole[0]) < 2:
        raise ConfigError("the text is too short: it must have two tokens at least")
    return whole[:limit]


def _read_tokenizer(source: Path) -> Tokenizer:
    """Reads the tokenizer of a model folder or a GGUF file."""
    tokenizer = GgufText(source).tokenizer() if is_gguf(source) else read_tokenizer(source)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer
