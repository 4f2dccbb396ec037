"""Arguments that a worker is started with."""

from headrace.settings.flags import as_flags
from headrace.supervisor.model_source import ModelSource
from headrace.supervisor.options import PlatformOptions


def worker_arguments(model: ModelSource, options: PlatformOptions) -> list[str]:
    """Names the model, and passes on what the user chose and nothing else: a flag would win over environment and file.

    The worker's share of the cores is only a default, because only here it is known how many workers there are.
    """
    arguments = ["--model", model.name, "--folder", str(model.folder)]
    arguments += as_flags({} if options.engine is None else {"engine": options.engine})
    arguments += as_flags({} if model.draft is None else {"draft_folder": model.draft})
    arguments += as_flags(options.model_options)
    if model.adapters:
        adapters = ",".join(f"{adapter}={folder}" for adapter, folder in model.adapters.items())
        arguments += ["--adapters", adapters]
    return [*arguments, "--default", f"thread_count={options.thread_count}"]
