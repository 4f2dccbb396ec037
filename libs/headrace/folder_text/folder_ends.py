"""Tokens of a folder that end a text.

Three files name them, and they often differ: a base model's `config.json` names the end of a text, the chat model's
`generation_config.json` the end of a turn as well, and `tokenizer_config.json` of a model that was trained further only
the end of a turn. A text ends at any of them.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headrace.errors.tree import InvalidCheckpoint
from headrace.folder_text.optional_json import read_object
from headrace.folder_text.special_tokens import CONFIG, DECODER, special_tokens

FILES = ("generation_config.json", "config.json")


def end_token_ids(folder: Path) -> list[int]:
    """Returns the ids of all tokens that end a text. Raises InvalidCheckpoint."""
    found = [token_id for name in FILES for token_id in _configured(folder / name)]
    text = special_tokens(folder).get("eos_token")
    token_id = None if text is None else _token_id(folder, text)
    return list(dict.fromkeys(found if token_id is None else [*found, token_id]))


def _configured(path: Path) -> Iterator[int]:
    """Yields the ids that a file names. Some name -1 where there is none."""
    content = read_object(path)
    nested = content.get("text_config")
    for source in (content, nested if isinstance(nested, dict) else {}):
        value = source.get("eos_token_id")
        for token_id in value if isinstance(value, list) else [value]:
            if token_id is not None and type(token_id) is not int:
                raise InvalidCheckpoint(f"{path}: eos_token_id is {value!r:.80}, not a token id or a list of them")
            if token_id is not None and token_id >= 0:
                yield token_id


def _token_id(folder: Path, text: str) -> int | None:
    """Returns the id of a token; None where the tokenizer has none of this text."""
    # The tokenizer itself may be large, and a start waits for this.
    added = read_object(folder / CONFIG).get(DECODER)
    for token_id, token in added.items() if isinstance(added, dict) else ():
        if isinstance(token, dict) and token.get("content") == text and token_id.isdecimal():
            return int(token_id)
    tokenizer = read_object(folder / "tokenizer.json")
    listed = tokenizer.get("added_tokens")
    for entry in listed if isinstance(listed, list) else ():
        if isinstance(entry, dict) and entry.get("content") == text:
            return _id_or_none(entry.get("id"))
    model = tokenizer.get("model")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    return _id_or_none(vocabulary.get(text)) if isinstance(vocabulary, dict) else None


def _id_or_none(value: Any) -> int | None:
    return value if isinstance(value, int) else None
