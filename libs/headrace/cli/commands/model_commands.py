"""`headrace models`: what can be served from this machine's disk, and pulling more."""

from dataclasses import asdict
from typing import Annotated, Any

from cyclopts import App, Parameter
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TransferSpeedColumn
from rich.table import Table

from headrace.catalogue.catalogue import known_models
from headrace.cli.output import console, error_console, print_json
from headrace.supervisor.files.model_folder import find_model, list_models, remove_model
from headrace.supervisor.files.pull import pull as pull_model
from headrace.supervisor.model_source import BUNDLED

models = App(name="models", help="Lists, pulls and deletes models.")
JsonFlag = Annotated[bool, Parameter(negative="")]


@models.command(name="list")
def list_(*, json: JsonFlag = False) -> None:
    """Lists the catalogue and what was pulled.

    Parameters
    ----------
    json
        Print one JSON object.
    """
    bundled: list[dict[str, Any]] = [
        {"name": name, "from": "bundled", "path": str(path)} for name, path in BUNDLED.items()
    ]
    pulled: list[dict[str, Any]] = [
        {
            "name": model.hub_id,
            "from": "pulled" if model.is_whole else "pulled in part: pull it again to go on",
            "path": str(model.path),
            "bytes": model.byte_count,
        }
        for model in list_models()
    ]
    catalogue = [asdict(model) | {"pulled": find_model(model.source) is not None} for model in known_models().values()]
    if json:
        print_json({"models": [*bundled, *pulled], "catalogue": catalogue})
        return
    table = _table("model", "size", "from")
    for model in (*bundled, *pulled):
        size = f"{int(model['bytes']) / 1e9:.2f} GB" if "bytes" in model else ""
        table.add_row(str(model["name"]), size, str(model["from"]))
    console.print(table)
    console.print("\nTo pull by name:")
    table = _table("model", "made for", "draft", "fallback", "here")
    for known in known_models().values():
        is_here = find_model(known.source) is not None
        table.add_row(known.name, known.device, known.draft, known.fallback, "yes" if is_here else "")
    console.print(table)
    console.print(
        "\n[dim]headrace up MODEL serves one, headrace models pull MODEL fetches one, headrace plan MODEL says where "
        "it fits. --json has the ids that are pulled.[/]",
        soft_wrap=True,
    )


def _table(*titles: str) -> Table:
    table = Table(box=None, header_style="dim", pad_edge=False)
    for title in titles:
        table.add_column(title, overflow="fold")
    return table


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
