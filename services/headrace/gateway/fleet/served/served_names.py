"""Names under which models are served, and models that are served no longer: from the settings, and from a file that
changes while the gateway runs."""

import logging
from collections.abc import Mapping, Set
from pathlib import Path

from headrace.errors import ConfigError
from headrace.served.served_file import ServedFile
from headrace.served.served_models import ServedModels

_log = logging.getLogger(__name__)


class ServedNames:
    """Finds the model that a name stands for."""

    def __init__(self, aliases: Mapping[str, str] | None = None, path: Path | None = None) -> None:
        """`aliases`: models by their further names; `path`: the file of served models, whose names go first. Raises
        ConfigError."""
        self._aliases = dict(aliases or {})
        self._file = None if path is None else ServedFile(path)
        self._stamp = None if self._file is None else self._file.stamp
        self._changes = ServedModels() if self._file is None else self._file.read()

    @property
    def aliases(self) -> Mapping[str, str]:
        """Models by their further names."""
        return {**self._aliases, **self._changes.aliases}

    def resolve(self, name: str) -> str:
        """Returns the model that a name stands for: the name itself, unless it is an alias."""
        return self._changes.aliases.get(name) or self._aliases.get(name) or name

    @property
    def unloaded(self) -> Set[str]:
        """Models that were unloaded, so that their workers are not waited for."""
        return self._changes.unloaded

    def refresh(self) -> None:
        """Reads the file if it has changed. One that cannot be read changes nothing."""
        if self._file is None or self._file.stamp == self._stamp:
            return
        self._stamp = self._file.stamp
        try:
            self._changes = self._file.read()
        except ConfigError as error:
            _log.error("the names of models stay as they were", extra={"error": error.message})
