"""Cuts a text into sequences of tokens of the same length."""

from pathlib import Path

from tokenizers import Tokenizer

from headrace.errors.tree import ConfigError, InvalidCheckpoint


def cut_windows(text: str, folder: Path, length: int, limit: int | None = None) -> list[tuple[int, ...]]:
    """At most `limit` sequences of `length` tokens, each starting as the tokenizer starts a text. Of a text that is
    shorter than one sequence, all of it. Raises InvalidCheckpoint, or ConfigError where there is nothing to score."""
    tokenizer = _read_tokenizer(folder)
    start = tokenizer.encode("").ids
    token_ids = tokenizer.encode(text, add_special_tokens=False).ids
    step = length - len(start)
    windows = [(*start, *token_ids[first : first + step]) for first in range(0, len(token_ids), step)]
    whole = [window for window in windows if len(window) == length] or windows[:1]
    if not whole or len(whole[0]) < 2:
        raise ConfigError("The text is too short: it must have two tokens at least.")
    return whole[:limit]


def _read_tokenizer(folder: Path) -> Tokenizer:
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise InvalidCheckpoint(f"{path} is missing: the text cannot be turned into tokens without it.")
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:
        raise InvalidCheckpoint(f"{path} cannot be read: {error}.") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer
