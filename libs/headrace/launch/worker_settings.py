"""Settings that workers are given: of one model, or of several that share a worker."""

from headrace.errors import ConfigError
from headrace.launch.platform_spec import ModelSource, PlatformSpec
from headrace.launch.roster import PlannedWorker


def worker_settings(worker: PlannedWorker, spec: PlatformSpec) -> dict[str, object]:
    """Names the worker's models, and passes on what the user chose and nothing else: it would win over environment and
    file. Raises ConfigError for adapters in a shared worker, because they belong to one model."""
    if worker.model is None:
        return _shared_settings(spec)
    return _own_settings(worker.model, spec, worker.part)


def _shared_settings(spec: PlatformSpec) -> dict[str, object]:
    if owner := next((model.name for model in spec.models if model.adapters), None):
        raise ConfigError(f"model {owner} has adapters, which a shared worker does not serve", param="lora")
    pinned: dict[str, object] = {"pinned": ",".join(spec.pinned)} if spec.pinned else {}
    models = ",".join(f"{model.name}={model.folder}" for model in spec.models)
    return {"models": models, **pinned, **spec.residency_options, **spec.model_options}


def _own_settings(model: ModelSource, spec: PlatformSpec, part: str) -> dict[str, object]:
    settings: dict[str, object] = {"model": model.name, "folder": model.folder}
    settings |= {"role": part} if part else {}
    settings |= {} if spec.engine is None else {"engine": spec.engine}
    settings |= {"pinned": model.name} if model.name in spec.pinned else {}
    settings |= {} if model.draft is None else {"draft_folder": model.draft}
    settings |= spec.residency_options
    settings |= spec.model_options
    if model.adapters:
        settings["adapters"] = ",".join(f"{adapter}={folder}" for adapter, folder in model.adapters.items())
    return settings
