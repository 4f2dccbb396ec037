"""Tokenizers of folders: the same ids as in transformers, from made files that differ as those of makers do."""

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoTokenizer

from headrace.errors.tree import InvalidCheckpoint
from headrace.folder_text.folder_ends import end_token_ids
from headrace.folder_text.folder_tokenizer import read_tokenizer
from headrace.folder_text.special_tokens import special_tokens

LETTERS = "abcdefgh <|>/s"
END = len(LETTERS)


def entry(text: str = "</s>", **flags: bool) -> dict[str, Any]:
    """A token as settings write it."""
    plain = dict.fromkeys(("lstrip", "rstrip", "single_word", "normalized"), False)
    return {"content": text, "special": True} | plain | flags


def made(folder: Path, **files: dict[str, Any]) -> Path:
    """A folder with a tokenizer whose only added token is `</s>`, and with other files."""
    tokenizer = Tokenizer(models.BPE({letter: index for index, letter in enumerate(LETTERS.replace(" ", "Ġ"))}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken("</s>", normalized=False)])
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast"} | files.pop("tokenizer_config", {})
    for name, content in {"tokenizer_config": settings, **files}.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return folder


SETTINGS: dict[str, dict[str, dict[str, Any]]] = {
    "tokenizer alone": {},
    "end as text": {"tokenizer_config": {"eos_token": "</s>"}},
    "end as object": {"tokenizer_config": {"eos_token": {"__type": "AddedToken", **entry()}}},
    "end among the letters": {"tokenizer_config": {"eos_token": "h"}},
    "end in the map": {"special_tokens_map": {"eos_token": entry()}},
    "map before settings": {"tokenizer_config": {"eos_token": "h"}, "special_tokens_map": {"eos_token": "</s>"}},
    "settings with tokens before the map": {
        "tokenizer_config": {"eos_token": "h", "added_tokens_decoder": {str(END): entry()}},
        "special_tokens_map": {"eos_token": "</s>"},
    },
    "names of one model": {"tokenizer_config": {"eos_token": "</s>", "image_token": "g"}},
    "further marks": {"tokenizer_config": {"additional_special_tokens": ["g"]}},
    "another token": {"tokenizer_config": {"added_tokens_decoder": {str(END): entry(), str(END + 1): entry("<x>")}}},
    **{
        f"{flag} {value}": {"tokenizer_config": {"added_tokens_decoder": {str(END): entry() | {flag: value}}}}
        for flag in ("lstrip", "rstrip", "single_word", "normalized", "special")
        for value in (True, False)
    },
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_folder_is_read_as_transformers_reads_it(tmp_path: Path, name: str) -> None:
    folder = made(tmp_path, **SETTINGS[name])
    ours, theirs = read_tokenizer(folder), AutoTokenizer.from_pretrained(folder)
    for text in ("a </s>  b", "a</s>b", "gh", "<x> a"):
        encoded = ours.encode(text)
        assert encoded.ids == theirs(text)["input_ids"]
        assert encoded.offsets == theirs(text, return_offsets_mapping=True)["offset_mapping"]
        assert ours.decode(encoded.ids) == theirs.decode(encoded.ids, skip_special_tokens=True)
    assert special_tokens(folder) == {key: str(value) for key, value in theirs.special_tokens_map.items()}
    assert end_token_ids(folder) == ([] if theirs.eos_token_id is None else [theirs.eos_token_id])


def test_a_text_ends_at_a_token_that_any_file_names(tmp_path: Path) -> None:
    folder = made(tmp_path, generation_config={"eos_token_id": [1, 2]}, config={"eos_token_id": 3})
    assert end_token_ids(folder) == [1, 2, 3]
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "</s>"}))
    assert end_token_ids(folder) == [1, 2, 3, END]
    (folder / "config.json").write_text(json.dumps({"text_config": {"eos_token_id": 5}, "eos_token_id": -1}))
    assert end_token_ids(folder) == [1, 2, 5, END]


def test_an_end_that_is_no_token_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InvalidCheckpoint, match=r"generation_config.json: eos_token_id is '2', not a token id"):
        end_token_ids(made(tmp_path, generation_config={"eos_token_id": "2"}))
