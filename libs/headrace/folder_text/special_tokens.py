"""Special tokens of a folder, as transformers reads them.

`tokenizer_config.json` has them, and in folders without `added_tokens_decoder` in it, which older programs wrote,
`special_tokens_map.json` comes before it.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from headrace.folder_text.optional_json import read_object

CONFIG, MAP = "tokenizer_config.json", "special_tokens_map.json"
DECODER = "added_tokens_decoder"
LISTS = ("additional_special_tokens", "extra_special_tokens")


def special_tokens(folder: Path) -> dict[str, str]:
    """Returns the texts of special tokens by their names, such as `eos_token`. Templates refer to them so. Raises
    InvalidCheckpoint."""
    settings = _settings(folder)
    extra = settings.get("extra_special_tokens")
    named = settings | (extra if isinstance(extra, dict) else {})
    texts = {name: _text(value) for name, value in named.items() if name.endswith("_token")}
    return {name: text for name, text in texts.items() if text}


def special_texts(folder: Path) -> list[str]:
    """Returns the texts of all special tokens, with and without names. Raises InvalidCheckpoint."""
    return list(dict.fromkeys([*special_tokens(folder).values(), *_listed(_settings(folder))]))


def _settings(folder: Path) -> dict[str, Any]:
    config = read_object(folder / CONFIG)
    return config if DECODER in config else config | read_object(folder / MAP)


def _listed(settings: Mapping[str, Any]) -> Iterator[str]:
    for name in LISTS:
        values = settings.get(name)
        yield from filter(None, map(_text, values if isinstance(values, list) else ()))


def _text(value: Any) -> str:
    """Returns the text of a token that is written as text, or as an object with its flags."""
    text = value.get("content") if isinstance(value, dict) else value
    return text if isinstance(text, str) else ""
