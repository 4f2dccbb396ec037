"""Models that were pulled, each in a folder named after its hub id."""

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import ConfigError, NotFound
from headrace.gguf_text.gguf_parts import whole_name
from headrace.storage.whole_file import SHARED, write_whole

FOLDER_VARIABLE = "HEADRACE_MODELS"
DEFAULT_FOLDER = Path("~/.local/share/headrace/models")
MANIFEST = ".pulled.json"
"""File that is written when everything is there: its names and sizes in bytes."""


@dataclass(frozen=True, slots=True)
class PulledModel:
    """A model on disk."""

    hub_id: str
    path: Path
    is_whole: bool
    """Whether everything is there. Otherwise the pull can be resumed."""
    byte_count: int


def models_folder() -> Path:
    """Returns the folder of pulled models."""
    return Path(os.environ.get(FOLDER_VARIABLE) or DEFAULT_FOLDER).expanduser().absolute()


def list_models() -> list[PulledModel]:
    """Lists what was pulled, whole or in part."""
    found = sorted(path for path in models_folder().glob("*/*") if path.is_dir())
    return [_describe(path) for path in found]


def find_model(hub_id: str) -> Path | None:
    """Returns the folder of a pulled model, or its GGUF file; None if it is not there whole."""
    path = models_folder() / hub_id
    if not path.is_dir() or not _describe(path).is_whole:
        return None
    weights = sorted(path.rglob("*.gguf"))
    return weights[0] if len({whole_name(file.name) for file in weights}) == 1 else path


def remove_model(hub_id: str) -> PulledModel:
    """Deletes a pulled model. Raises NotFound or ConfigError."""
    known = {model.hub_id: model for model in list_models()}
    if hub_id not in known:
        names = ", ".join(known) or "none"
        raise NotFound(f"{hub_id} was not pulled; what was: {names}")
    try:
        shutil.rmtree(known[hub_id].path)
    except OSError as error:
        raise ConfigError(f"cannot delete {known[hub_id].path}: {error.strerror}") from None
    return known[hub_id]


def write_manifest(folder: Path, sizes: dict[str, int]) -> None:
    """Marks a folder as whole."""
    write_whole(folder / MANIFEST, json.dumps(sizes), mode=SHARED)


def _describe(path: Path) -> PulledModel:
    sizes = {file.relative_to(path).as_posix(): file.stat().st_size for file in path.rglob("*") if file.is_file()}
    try:
        wanted = json.loads((path / MANIFEST).read_text())
        is_whole = all(sizes.get(name) == size for name, size in wanted.items())
    except (OSError, ValueError, AttributeError):
        is_whole = False
    return PulledModel(f"{path.parent.name}/{path.name}", path, is_whole, sum(sizes.values()))
