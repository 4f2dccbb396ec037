"""Start of a platform with what was loaded while it ran the last time."""

import logging
from dataclasses import replace
from functools import partial

from headrace.errors import ConfigError
from headrace.launch.platform_spec import ModelSource, PlatformSpec
from headrace.served.served_file import ServedFile
from headrace.served.served_models import ServedModels
from headrace.supervisor.changes.served_sources import ServedSources

_log = logging.getLogger(__name__)


def with_loaded(spec: PlatformSpec, sources: ServedSources, file: ServedFile, *, are_chosen: bool) -> PlatformSpec:
    """Returns a platform that is about to start, with the models of its file. One that cannot be found any more is left
    out, and noted in the file. `are_chosen`: whether its own models were named, and were not the usual ones: they are
    served although they were unloaded before. Raises ConfigError for a file that cannot be read."""
    if file.stamp is None:
        return spec
    chosen = {model.name for model in spec.models} if are_chosen else set()
    served = file.change(lambda before: before.starting(chosen))
    found: list[ModelSource] = []
    for name in sources.names(served):
        try:
            found.append(sources.find(name, served))
        except ConfigError as error:
            _log.warning("a model that was loaded before is left out", extra={"model": name, "error": error.message})
            file.change(partial(_refusing, name, error.message))
    models = found or spec.models
    pinned = [model.name for model in models if served.pins.get(model.name, model.name in spec.pinned)]
    return replace(spec, models=models, pinned=pinned)


def _refusing(name: str, reason: str, before: ServedModels) -> ServedModels:
    return before.refusing(name, reason)
