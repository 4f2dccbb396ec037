"""`headrace models load`, `unload`, `alias` and `pin`: what a running platform serves."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from headrace.cli.output import console, error_console, print_json
from headrace.domain.deadline import Deadline
from headrace.errors import ConfigError, DeadlineExceeded, InvalidRequest, NotFound
from headrace.served.loaded_adapter import LoadedAdapter
from headrace.served.loaded_source import LoadedSource
from headrace.served.served_file import FILE_NAME, ServedFile
from headrace.served.served_models import ServedModels
from headrace.supervisor.model_source import find_adapter, name_of, resolve
from headrace.supervisor.state import DEFAULT_FOLDER, read_platform

LOOK_SECONDS = 0.1
JsonFlag = Annotated[bool, Parameter(negative="")]


def load(
    model: str,
    *,
    draft: str = "",
    chat_template: str = "",
    adapter_of: str = "",
    timeout: float = 3600.0,
    state_dir: Path = DEFAULT_FOLDER,
    json: JsonFlag = False,
) -> None:
    """Serves one more model on the platform that runs on this machine, and after its next start too.

    A name that is served already gets the new source: its requests move over once that is ready.

    Parameters
    ----------
    model
        A folder, a GGUF file, a hub id or a name of the catalogue; NAME=SOURCE names it.
    draft
        A small model of the same family that drafts for it, or a draft head.
    chat_template
        A file with a Jinja template that replaces the model's.
    adapter_of
        Name of a served model: MODEL is then NAME=FOLDER of a LoRA adapter for it.
    timeout
        Seconds to wait until it is served.
    state_dir
        The state folder that the platform was started with.
    json
        Print one JSON object.
    """
    read_platform(state_dir)
    if adapter_of:
        _check_served(state_dir, adapter_of)
        name, source = _adapter(model)
        adapter = LoadedAdapter(model=adapter_of, source=source)
        _change(state_dir, name, lambda before: before.adapting(name, adapter), timeout)
    else:
        given = [[each] if each else [] for each in (draft, chat_template)]
        found = resolve([model], given[0], chat_templates=given[1])[0]
        name, source = found.name, str(found.folder)
        loaded = LoadedSource(
            source=source,
            draft=str(found.draft) if draft else "",
            chat_template=str(found.chat_template or ""),
        )
        _change(state_dir, name, lambda before: before.loading(name, loaded), timeout)
    _say(f"{name} is served", {"model": name, "state": "served"}, json)


def unload(name: str, *, timeout: float = 120.0, state_dir: Path = DEFAULT_FOLDER, json: JsonFlag = False) -> None:
    """Serves a model, or an adapter, no longer. Its requests have a few seconds to end; new ones get a 404.

    Parameters
    ----------
    name
        A name that headrace status shows.
    timeout
        Seconds to wait until it is gone.
    state_dir
        The state folder that the platform was started with.
    json
        Print one JSON object.
    """
    _check_served(state_dir, name)
    _change(state_dir, name, lambda before: before.unloading(name), timeout)
    _say(f"{name} is no longer served", {"model": name, "state": "unloaded"}, json)


def alias(
    name: str,
    model: str = "",
    *,
    remove: Annotated[bool, Parameter(negative="")] = False,
    state_dir: Path = DEFAULT_FOLDER,
    json: JsonFlag = False,
) -> None:
    """Serves a model under one more name, such as one that a program has built in.

    Parameters
    ----------
    name
        The further name, such as gpt-4o.
    model
        The model that answers.
    remove
        Take the name away again.
    state_dir
        The state folder that the platform was started with.
    json
        Print one JSON object.
    """
    read_platform(state_dir)
    file = ServedFile(state_dir / FILE_NAME)
    if remove:
        if name not in file.read().aliases:
            raise NotFound(f"no model was given the name {name!r} by headrace models alias")
        file.change(lambda before: before.dropping(name))
        _say(f"{name} is no name of a model any more", {"alias": name, "state": "removed"}, json)
        return
    if not model:
        raise InvalidRequest("say which model answers: headrace models alias NAME MODEL, or --remove")
    _check_served(state_dir, model)
    name_of(name)
    file.change(lambda before: before.naming(name, model))
    _say(f"{name} is answered by {model}", {"alias": name, "model": model}, json)


def pin(
    name: str,
    *,
    remove: Annotated[bool, Parameter(negative="")] = False,
    timeout: float = 60.0,
    state_dir: Path = DEFAULT_FOLDER,
    json: JsonFlag = False,
) -> None:
    """Keeps a model awake that takes turns with others in one worker, or that leaves memory when idle.

    Parameters
    ----------
    name
        A model that headrace status shows.
    remove
        Let it take turns again.
    timeout
        Seconds to wait until its worker has agreed.
    state_dir
        The state folder that the platform was started with.
    json
        Print one JSON object.
    """
    _check_served(state_dir, name)
    _change(state_dir, name, lambda before: before.pinning(name, is_pinned=not remove), timeout)
    _say(f"{name} {'takes turns' if remove else 'stays awake'}", {"model": name, "pinned": not remove}, json)


def _check_served(state_dir: Path, name: str) -> None:
    """Raises NotFound where no platform runs, or it serves nothing of that name."""
    served = [str(each) for each in read_platform(state_dir)["models"]]
    if name not in served:
        raise NotFound(f"no model {name!r} is served; there are: {', '.join(served)}")


def _adapter(given: str) -> tuple[str, str]:
    name, separator, source = given.partition("=")
    if not separator:
        raise InvalidRequest(f"an adapter needs a name: headrace models load NAME={given} --adapter-of MODEL")
    return name_of(name), str(find_adapter(source))


def _change(state_dir: Path, name: str, change: Callable[[ServedModels], ServedModels], timeout: float) -> None:
    """Notes a change, and waits until the platform has made it. Raises ConfigError with the reason where it could not,
    NotFound if it ends meanwhile, and DeadlineExceeded."""
    file, deadline = ServedFile(state_dir / FILE_NAME), Deadline.after(timeout)
    revision = file.change(change).revision
    with error_console.status(f"{name} …"):
        while (served := file.read()).applied < revision:
            if deadline.expired:
                raise DeadlineExceeded(f"{name} takes longer than {timeout:g} s; headrace status shows when it is done")
            read_platform(state_dir)
            time.sleep(LOOK_SECONDS)
    if name in served.refused:
        raise ConfigError(served.refused[name])


def _say(text: str, described: dict[str, object], as_json: bool) -> None:
    if as_json:
        print_json(described)
    else:
        console.print(text, soft_wrap=True)
