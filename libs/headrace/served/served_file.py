"""The file of served models."""

import json
from collections.abc import Callable
from pathlib import Path

from pydantic import ValidationError

from headrace.errors import ConfigError
from headrace.served.served_models import ServedModels
from headrace.storage.file_lock import locked
from headrace.storage.file_stamp import FileStamp
from headrace.storage.whole_file import write_whole

FILE_NAME = "models.json"
"""Name of the file in the state folder of a platform."""


class ServedFile:
    """Reads and changes the file. Each change replaces the file whole, under a lock beside it."""

    def __init__(self, path: Path) -> None:
        self.path = path.expanduser().absolute()

    @property
    def stamp(self) -> FileStamp | None:
        """Stamp of the present version. None: there is no file."""
        return FileStamp.of(self.path)

    def read(self) -> ServedModels:
        """Returns the changes; none where there is no file. Raises ConfigError for one that is not valid."""
        try:
            return ServedModels.model_validate_json(self.path.read_bytes())
        except FileNotFoundError:
            return ServedModels()
        except (OSError, ValidationError) as error:
            said = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error.strerror
            raise ConfigError(
                f"cannot read the file of served models {self.path}: {said}. Without the file the platform serves what "
                "it is started with",
                param="models_file",
            ) from None

    def change(self, change: Callable[[ServedModels], ServedModels]) -> ServedModels:
        """Replaces the content by what `change` makes of it, and returns that. Raises ConfigError."""
        try:
            with locked(self.path):
                changed = change(self.read())
                content = changed.model_dump(mode="json")
                for names in (content["leaving"], content["unloaded"]):
                    names.sort()
                write_whole(self.path, json.dumps(content, indent=1))
        except OSError as error:
            raise ConfigError(
                f"cannot change the file of served models {self.path}: {error.strerror}", param="models_file"
            ) from None
        return changed
