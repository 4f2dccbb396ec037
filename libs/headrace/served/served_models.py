"""ServedModels beside the models that a platform was started with."""

from collections.abc import Mapping, Set
from typing import TypeVar

from pydantic import BaseModel, ConfigDict

from headrace.served.loaded_adapter import LoadedAdapter
from headrace.served.loaded_source import LoadedSource

T = TypeVar("T")


class ServedModels(BaseModel):
    """Changes to a platform, in the form of its file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: int = 1
    revision: int = 0
    """Number of changes so far."""
    applied: int = 0
    """Number of changes that the platform has made, or refused."""
    models: Mapping[str, LoadedSource] = {}
    """Models that were loaded, by name."""
    adapters: Mapping[str, LoadedAdapter] = {}
    """Adapters that were loaded, by name."""
    former: Mapping[str, LoadedSource | LoadedAdapter] = {}
    """Sources that models and adapters had before their last change, for a change that fails."""
    leaving: frozenset[str] = frozenset()
    """Names of models and adapters that are to be unloaded, and are served until the platform agrees."""
    unloaded: frozenset[str] = frozenset()
    """Names of models that the platform was started with and that were unloaded."""
    aliases: Mapping[str, str] = {}
    """Names under which models are served too, and the models."""
    pins: Mapping[str, bool] = {}
    """Whether models stay awake, by name; of others the start decides."""
    refused: Mapping[str, str] = {}
    """Reasons for which models and adapters could not be loaded, unloaded or pinned, by name."""

    def loading(self, name: str, model: LoadedSource) -> "ServedModels":
        """Returns what is served once a model is loaded."""
        return self._changed(models={**self.models, name: model}, **self._fresh(name, self.models.get(name)))

    def adapting(self, name: str, adapter: LoadedAdapter) -> "ServedModels":
        """Returns what is served once an adapter is loaded."""
        return self._changed(adapters={**self.adapters, name: adapter}, **self._fresh(name, self.adapters.get(name)))

    def unloading(self, name: str) -> "ServedModels":
        """Returns the same, with the wish to unload a model or an adapter."""
        return self._changed(leaving=self.leaving | {name}, refused=_without(self.refused, name))

    def parted(self) -> "ServedModels":
        """Returns what is served once all that is to leave has left, with its adapters and further names."""
        gone = self.leaving
        adapters = {name: each for name, each in self.adapters.items() if not gone & {name, each.model}}
        return self.model_copy(
            update={
                "models": {name: model for name, model in self.models.items() if name not in gone},
                "adapters": adapters,
                "aliases": {alias: model for alias, model in self.aliases.items() if model not in gone},
                "pins": {name: is_pinned for name, is_pinned in self.pins.items() if name not in gone},
                "leaving": frozenset(),
                "unloaded": self.unloaded | gone,
            }
        )

    def naming(self, alias: str, model: str) -> "ServedModels":
        """Returns what is served once a model has one more name."""
        return self._changed(aliases={**self.aliases, alias: model})

    def dropping(self, alias: str) -> "ServedModels":
        """Returns what is served without a further name of a model."""
        return self._changed(aliases=_without(self.aliases, alias))

    def pinning(self, name: str, *, is_pinned: bool) -> "ServedModels":
        """Returns the same, with the wish that a model stays awake, or takes turns."""
        return self._changed(pins={**self.pins, name: is_pinned}, refused=_without(self.refused, name))

    def starting(self, names: Set[str]) -> "ServedModels":
        """Returns what is served beside the models of these names, with which a platform is started."""
        models = {name: model for name, model in self.models.items() if name not in names}
        fresh = {"models": models, "unloaded": self.unloaded - names, "refused": {}, "applied": self.revision}
        return self.parted().model_copy(update=fresh)

    def applying(self, revision: int) -> "ServedModels":
        """Returns the same, of which the platform has made so many changes."""
        return self.model_copy(update={"applied": revision})

    def refusing(self, name: str, reason: str) -> "ServedModels":
        """Returns what is served where a model or an adapter could not be loaded, or not be unloaded."""
        models, adapters = dict(self.models), dict(self.adapters)
        if name not in self.leaving:
            models.pop(name, None)
            adapters.pop(name, None)
            match self.former.get(name):
                case LoadedSource() as model:
                    models[name] = model
                case LoadedAdapter() as adapter:
                    adapters[name] = adapter
        refused, leaving = {**self.refused, name: reason}, self.leaving - {name}
        return self.model_copy(update={"models": models, "adapters": adapters, "refused": refused, "leaving": leaving})

    def refusing_pin(self, name: str, reason: str) -> "ServedModels":
        """Returns the same, where a model could not be pinned, or unpinned: it is as it was at the start."""
        return self.model_copy(update={"pins": _without(self.pins, name), "refused": {**self.refused, name: reason}})

    def _fresh(self, name: str, former: LoadedSource | LoadedAdapter | None) -> dict[str, object]:
        """Returns what a name begins with that is loaded."""
        kept = _without(self.former, name) | ({} if former is None else {name: former})
        return {"unloaded": self.unloaded - {name}, "refused": _without(self.refused, name), "former": kept}

    def _changed(self, **fields: object) -> "ServedModels":
        return self.model_copy(update={**fields, "revision": self.revision + 1})


def _without(values: Mapping[str, T], name: str) -> dict[str, T]:
    return {other: value for other, value in values.items() if other != name}
