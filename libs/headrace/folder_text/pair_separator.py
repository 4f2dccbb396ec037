"""The token between two texts that a model reads as a pair."""

from pathlib import Path

from headrace.folder_text.folder_tokenizer import read_tokenizer


def pair_separator(folder: Path) -> int | None:
    """Returns the id of the last token before the second segment of a pair; None where the tokenizer gives pairs one
    segment. Raises InvalidCheckpoint."""
    encoding = read_tokenizer(folder).encode("a", "b")
    second = next((index for index, segment in enumerate(encoding.type_ids) if segment), 0)
    return encoding.ids[second - 1] if second else None
