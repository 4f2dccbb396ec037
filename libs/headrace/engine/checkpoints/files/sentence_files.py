"""The files that sentence-transformers puts beside a checkpoint."""

from pathlib import Path

MODULES_FILE = "modules.json"


def has_sentence_settings(folder: Path) -> bool:
    """Whether the folder has files of sentence-transformers."""
    return (folder / MODULES_FILE).is_file()
