"""The catalogue: each model's entry in models.toml, and the folder with its config.json."""

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A model of the catalogue. Its weights may or may not be on this machine."""

    name: str
    title: str
    source: str
    """Id of the repository that its quantized weights are pulled from."""
    parameter_count: int
    """Parameters, to three digits."""
    download_bytes: int
    """Size of the quantized weights, to three digits."""
    license: str
    """License, as hubs name it."""
    device: str
    """Device profile that it is meant for."""
    draft: str | None = None
    """Name of the model of the catalogue that drafts for it."""
    fallback: str | None = None
    """Name of the smaller model of the catalogue that answers where this one cannot."""

    @property
    def shape_folder(self) -> Path:
        """Folder with its config.json, and no weights."""
        return FOLDER / "configs" / self.name


@cache
def known_models() -> dict[str, KnownModel]:
    """Returns the models of the catalogue by their names, the largest families first."""
    raw = tomllib.loads((FOLDER / "models.toml").read_text(encoding="utf-8"))
    return {name: KnownModel(name, **facts) for name, facts in raw.items()}
