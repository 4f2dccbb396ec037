"""The tokenizer of a folder, with the flags that its settings give to added tokens.

`tokenizer.json` has them too, but transformers lets `added_tokens_decoder` of `tokenizer_config.json` win, and makers
change it there alone.
"""

from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer

from headrace.errors.tree import InvalidCheckpoint
from headrace.folder_text.optional_json import read_object
from headrace.folder_text.special_tokens import CONFIG, DECODER, special_texts

FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")


def read_tokenizer(folder: Path) -> Tokenizer:
    """Reads the tokenizer. Raises InvalidCheckpoint."""
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise InvalidCheckpoint(f"{path} is missing: the text cannot be turned into tokens without it")
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # noqa: BLE001 - the library raises bare Exception
        raise InvalidCheckpoint(f"cannot read the tokenizer {path}: {error}") from None
    tokenizer.add_tokens(_changed(tokenizer, folder))
    known = {token.content for token in tokenizer.get_added_tokens_decoder().values()}
    tokenizer.add_special_tokens(
        [text for text in special_texts(folder) if text not in known and tokenizer.token_to_id(text) is not None]
    )
    return tokenizer


def _changed(tokenizer: Tokenizer, folder: Path) -> list[AddedToken]:
    """Returns the added tokens that the settings describe differently from the tokenizer, in the order of their ids."""
    known = tokenizer.get_added_tokens_decoder()
    listed = read_object(folder / CONFIG).get(DECODER)
    entries = {int(key): value for key, value in listed.items() if key.isdecimal()} if isinstance(listed, dict) else {}
    wanted = {token_id: _token(entry) for token_id, entry in sorted(entries.items())}
    return [
        token
        for token_id, token in wanted.items()
        if token is not None and (token_id not in known or _flags(known[token_id]) != _flags(token))
    ]


def _token(entry: Any) -> AddedToken | None:
    text = entry.get("content") if isinstance(entry, dict) else None
    if not isinstance(text, str) or not text:
        return None
    return AddedToken(text, **{flag: bool(entry[flag]) for flag in FLAGS if flag in entry})


def _flags(token: AddedToken) -> tuple[str, *tuple[bool, ...]]:
    return (token.content, *(bool(getattr(token, flag)) for flag in FLAGS))
