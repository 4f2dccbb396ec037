"""Sources of the models that a platform serves: as it was started, and as it was changed since."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from headrace.errors import ConfigError
from headrace.launch.platform_spec import ModelSource
from headrace.served.loaded_adapter import LoadedAdapter
from headrace.served.loaded_source import LoadedSource
from headrace.served.served_models import ServedModels
from headrace.supervisor.model_source import find_adapter, resolve


class ServedSources:
    """Finds the models of a platform that was started with some."""

    def __init__(self, started: Sequence[ModelSource]) -> None:
        self._started = {source.name: source for source in started}

    def names(self, served: ServedModels) -> list[str]:
        """Returns the names of the models that are to be served."""
        gone = served.unloaded | served.leaving
        kept = [name for name in self._started if name not in gone]
        return [*kept, *(name for name in served.models if name not in kept and name not in served.leaving)]

    def find(self, name: str, served: ServedModels) -> ModelSource:
        """Returns the source of a model, with its adapters. Raises ConfigError."""
        loaded = served.models.get(name)
        source = self._started[name] if loaded is None else _resolved(name, loaded)
        gone = served.unloaded | served.leaving
        adapters = {**source.adapters, **_adapters_of(name, served.adapters)}
        kept = {adapter: path for adapter, path in adapters.items() if adapter not in gone}
        return replace(source, adapters=kept)


def _resolved(name: str, model: LoadedSource) -> ModelSource:
    template = [model.chat_template] if model.chat_template else []
    try:
        return resolve([f"{name}={model.source}"], [model.draft] if model.draft else [], chat_templates=template)[0]
    except (OSError, ValueError) as error:
        # Names that no file can have: too long, or with a zero byte.
        raise ConfigError(f"the source {model.source[:80]!r} of {name} cannot be read: {error}"[:300]) from None


def _adapters_of(model: str, adapters: Mapping[str, LoadedAdapter]) -> dict[str, Path]:
    found = {}
    for name, adapter in adapters.items():
        if adapter.model == model:
            try:
                found[name] = find_adapter(adapter.source)
            except ConfigError as error:
                raise ConfigError(error.message, param=name) from None
            except (OSError, ValueError) as error:
                raise ConfigError(f"the adapter {name} cannot be read: {error}"[:300], param=name) from None
    return found
