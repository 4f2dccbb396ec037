"""The files that sentence-transformers adds to a checkpoint."""

from pathlib import Path

MODULES_FILE = "modules.json"


def has_sentence_settings(folder: Path) -> bool:
    """Whether the folder has sentence-transformers files."""
    return (folder / MODULES_FILE).is_file()
