"""ServedModels that a platform has beside those that it was started with."""

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict

from headrace.served.served_model import ServedModel


class ServedModels(BaseModel):
    """Changes to a platform, in the form of its file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: int = 1
    revision: int = 0
    """Number of changes so far."""
    models: Mapping[str, ServedModel] = {}
    """Models that were loaded, by name."""
    unloaded: frozenset[str] = frozenset()
    """Names of models that the platform was started with and that were unloaded."""
    aliases: Mapping[str, str] = {}
    """Names under which models are served too, and the models."""

    def loading(self, name: str, model: ServedModel) -> "ServedModels":
        """Returns what is served once a model is loaded."""
        return self._changed(models={**self.models, name: model}, unloaded=self.unloaded - {name})

    def unloading(self, name: str) -> "ServedModels":
        """Returns what is served once a model is unloaded, without the other names of it."""
        models = {other: model for other, model in self.models.items() if other != name}
        aliases = {alias: model for alias, model in self.aliases.items() if model != name}
        return self._changed(models=models, unloaded=self.unloaded | {name}, aliases=aliases)

    def naming(self, alias: str, model: str) -> "ServedModels":
        """Returns what is served once a model has one more name."""
        return self._changed(aliases={**self.aliases, alias: model})

    def dropping(self, alias: str) -> "ServedModels":
        """Returns what is served without a further name of a model."""
        return self._changed(aliases={name: model for name, model in self.aliases.items() if name != alias})

    def _changed(self, **fields: object) -> "ServedModels":
        return self.model_copy(update={**fields, "revision": self.revision + 1})
