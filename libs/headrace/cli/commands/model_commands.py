"""`headrace models`: what can be served from this machine's disk, and pulling more."""

from dataclasses import asdict
from typing import Annotated, Any

from cyclopts import App, Parameter
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TransferSpeedColumn

from headrace.catalogue.catalogue import known_models
from headrace.cli.commands.platform.loading_commands import alias, load, pin, unload
from headrace.cli.output import console, error_console, print_json
from headrace.cli.terminal.model_table import catalogue_table, legend_line, local_table, parameter_count
from headrace.supervisor.files.model_folder import find_model, list_models, remove_model
from headrace.supervisor.files.pull import pull as pull_model
from headrace.supervisor.model_source import BUNDLED

models = App(name="models", help="Lists, pulls, loads, pins and unloads models.")
for command in (load, unload, alias, pin):
    models.command(command)
JsonFlag = Annotated[bool, Parameter(negative="")]


@models.command(name="list")
def list_(*, json: JsonFlag = False) -> None:
    """Lists the catalogue and what was pulled.

    Parameters
    ----------
    json
        Print one JSON object.
    """
    local = [*_bundled(), *_pulled()]
    here = [known.name for known in known_models().values() if find_model(known.source) is not None]
    if json:
        catalogue = [asdict(model) | {"pulled": model.name in here} for model in known_models().values()]
        print_json({"models": local, "catalogue": catalogue})
        return
    console.print(local_table(local))
    console.print("\nTo pull by name:")
    console.print(catalogue_table(list(known_models().values()), here, console.width))
    console.print("", legend_line(console.width), sep="\n")
    console.print(
        "[dim]headrace up MODEL serves one, headrace models pull MODEL fetches one, headrace plan MODEL says where it "
        "fits.[/]"
    )


def _bundled() -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "from": "bundled",
            "path": str(path),
            "bytes": sum(file.stat().st_size for file in path.rglob("*") if file.is_file()),
            "parameter_count": parameter_count(path),
            "license": "apache-2.0",
        }
        for name, path in BUNDLED.items()
    ]


def _pulled() -> list[dict[str, Any]]:
    licenses = {known.source: known.license for known in known_models().values()}
    return [
        {
            "name": model.hub_id,
            "from": "pulled" if model.is_whole else "pulled in part: pull it again to go on",
            "path": str(model.path),
            "bytes": model.byte_count,
            "parameter_count": parameter_count(model.path),
            "license": licenses.get(model.hub_id, ""),
        }
        for model in list_models()
    ]


@models.command
def pull(model: str, *, json: JsonFlag = False) -> None:
    """Pulls a model from the hub. Run again after an interruption, it resumes.

    Parameters
    ----------
    model
        A name of the catalogue, or a hub id such as Qwen/Qwen2.5-0.5B-Instruct; of a repository of GGUF files
        ORG/NAME:Q4_K_M takes the file with that in its name. HEADRACE_HUB_URL names another hub, HF_TOKEN who
        asks, HEADRACE_MODELS the folder.
    json
        Print one JSON object at the end.
    """
    known = known_models().get(model)
    source = model if known is None else known.source
    with _Bars() as bars:
        folder = pull_model(source, bars.report)
    name = model.partition(":")[0]
    if json:
        print_json({"name": name, "path": str(folder)})
    else:
        console.print(f"{name} is in {folder}. Serve it with:\n  headrace up {name}", soft_wrap=True)


@models.command
def rm(model: str, *, json: JsonFlag = False) -> None:
    """Deletes a pulled model.

    Parameters
    ----------
    model
        Its hub id.
    json
        Print one JSON object.
    """
    removed = remove_model(model)
    if json:
        print_json({"removed": removed.hub_id, "bytes": removed.byte_count})
    else:
        console.print(f"{removed.hub_id} is deleted: {removed.byte_count / 1e9:.2f} GB")


class _Bars:
    """Shows a bar for each file while it is received."""

    def __init__(self) -> None:
        columns = (TextColumn("[dim]{task.description}"), BarColumn(None), DownloadColumn(), TransferSpeedColumn())
        self._progress = Progress(*columns, console=error_console)
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> "_Bars":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def report(self, name: str, done: int, total: int) -> None:
        if name not in self._tasks:
            self._tasks[name] = self._progress.add_task(name, total=total, completed=done)
        self._progress.update(self._tasks[name], completed=done)
