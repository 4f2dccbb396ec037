"""Chat templates of a folder, by their names.

Separate files come before all that `tokenizer_config.json` has, as in transformers. One that processors read stands in
where there is no other.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.errors.tree import InvalidCheckpoint
from headrace.folder_text.optional_json import read_object
from headrace.folder_text.special_tokens import CONFIG

DEFAULT = "default"
FILE, FOLDER = "chat_template.jinja", "additional_chat_templates"
OF_PROCESSOR = "chat_template.json"


def template_sources(folder: Path) -> dict[str, str]:
    """Returns the sources of templates by their names. Raises InvalidCheckpoint."""
    own = _files(folder)
    if DEFAULT in own:
        return own
    configured = _configured(read_object(folder / CONFIG).get("chat_template"))
    return (configured or _configured(read_object(folder / OF_PROCESSOR).get("chat_template"))) | own


def _files(folder: Path) -> dict[str, str]:
    paths = {path.stem: path for path in sorted((folder / FOLDER).glob("*.jinja"))} | {DEFAULT: folder / FILE}
    try:
        return {name: path.read_text(encoding="utf-8") for name, path in paths.items() if path.is_file()}
    except (OSError, ValueError) as error:
        raise InvalidCheckpoint(f"a chat template of {folder} cannot be read: {error}") from None


def _configured(value: Any) -> dict[str, str]:
    """Returns templates that are written as one text, as an object, or as a list with names."""
    if isinstance(value, list):
        value = {entry.get("name"): entry.get("template") for entry in value if isinstance(entry, dict)}
    found: Mapping[Any, Any] = value if isinstance(value, dict) else {DEFAULT: value}
    return {str(name): text for name, text in found.items() if isinstance(text, str) and text}
