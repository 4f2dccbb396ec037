"""Arguments that a worker is started with."""

from headrace.errors import ConfigError
from headrace.settings.flags import as_flags
from headrace.supervisor.model_source import ModelSource
from headrace.supervisor.options import PlatformOptions


def shared_worker_arguments(options: PlatformOptions) -> list[str]:
    """Names all models, for a worker in which they take turns. Raises ConfigError for adapters, which belong to one."""
    if whose := next((model.name for model in options.models if model.adapters), None):
        raise ConfigError(f"model {whose} has adapters, which a shared worker does not serve", param="lora")
    models = ",".join(f"{model.name}={model.folder}" for model in options.models)
    arguments = ["--models", models]
    arguments += ["--pinned", ",".join(options.pinned)] if options.pinned else []
    arguments += as_flags(options.residency_options)
    arguments += as_flags(options.model_options)
    return [*arguments, "--default", f"thread_count={options.thread_count}"]


def worker_arguments(model: ModelSource, options: PlatformOptions, role: str = "") -> list[str]:
    """Names the model, and passes on what the user chose and nothing else: a flag would win over environment and file.

    The worker's share of the cores is only a default, because only here it is known how many workers there are. `role`:
    its part in the work on prompts; empty leaves it to its settings.
    """
    arguments = ["--model", model.name, "--folder", str(model.folder)]
    arguments += as_flags({"role": role} if role else {})
    arguments += as_flags({} if options.engine is None else {"engine": options.engine})
    arguments += as_flags({} if model.draft is None else {"draft_folder": model.draft})
    arguments += as_flags(options.model_options)
    if model.adapters:
        adapters = ",".join(f"{adapter}={folder}" for adapter, folder in model.adapters.items())
        arguments += ["--adapters", adapters]
    return [*arguments, "--default", f"thread_count={options.thread_count}"]
