"""Models to serve, as `NAME=SOURCE`; a source is a folder, a GGUF file, a name from the catalogue, or a hub id."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from headrace import demo_model
from headrace.catalogue.catalogue import KnownModel, known_models
from headrace.errors import ConfigError
from headrace.gguf_text.gguf_parts import parts_named_like, whole_name
from headrace.launch.platform_spec import ModelSource
from headrace.supervisor.files.model_folder import find_model
from headrace.supervisor.files.pull import HUB_ID

BUNDLED = {"headrace-demo": demo_model.CHECKPOINT}
"""Models that come with Headrace."""

DRAFTS = {demo_model.CHECKPOINT: demo_model.DRAFT}
"""Draft models of the models that come with Headrace."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,95}")


def resolve(
    models: Sequence[str],
    drafts: Sequence[str] = (),
    adapters: Sequence[str] = (),
    chat_templates: Sequence[str] = (),
) -> list[ModelSource]:
    """Finds every model; none given means the bundled one. `drafts` are NAME=SOURCE, or SOURCE if there is one model;
    `adapters` are MODEL:NAME=SOURCE, or NAME=SOURCE if there is one model; `chat_templates` are NAME=FILE, or FILE if
    there is one model.

    Raises ConfigError.
    """
    sources = [_resolve(model) for model in models or ["headrace-demo"]]
    names = [source.name for source in sources]
    if duplicate := next((name for name in names if names.count(name) > 1), None):
        raise ConfigError(f"two models are called {duplicate!r}; name them with NAME=SOURCE", param="model")
    chosen = dict(_resolve_draft(draft, names) for draft in drafts)
    found = [_resolve_adapter(adapter, names) for adapter in adapters]
    _check_adapter_names([name for _, name, _ in found], names)
    templates = dict(_resolve_template(template, names) for template in chat_templates)
    return [
        replace(
            source,
            draft=chosen.get(source.name, source.draft),
            chat_template=templates.get(source.name),
            adapters={name: folder for model, name, folder in found if model == source.name},
        )
        for source in sources
    ]


def _resolve_draft(draft: str, names: Sequence[str]) -> tuple[str, Path]:
    """The model that a draft model is for, and its folder."""
    name, source = _of_model("draft", draft, names)
    return name, _find(source)


def _resolve_template(given: str, names: Sequence[str]) -> tuple[str, Path]:
    """The model that a chat template is for, and the template's file."""
    name, source = _of_model("chat-template", given, names)
    path = Path(source).expanduser()
    if not path.is_file():
        raise ConfigError(f"there is no file {source} with a chat template", param="chat-template")
    return name, path.resolve()


def _of_model(flag: str, given: str, names: Sequence[str]) -> tuple[str, str]:
    """Splits NAME=SOURCE, in which the name may be left out where there is one model. Raises ConfigError."""
    name, separator, source = given.partition("=")
    if not separator:
        name, source = names[0], given
        if len(names) > 1:
            raise ConfigError(f"--{flag} {given} does not say for which model: write NAME={given}", param=flag)
    if name not in names:
        raise ConfigError(f"--{flag} is for {name!r}, but the models are: {', '.join(names)}", param=flag)
    return name, source


def _resolve_adapter(adapter: str, models: Sequence[str]) -> tuple[str, str, Path]:
    """The model that an adapter is for, its name and its folder."""
    name, separator, source = adapter.partition("=")
    model, colon, rest = name.partition(":")
    if colon:
        name = rest
    elif len(models) > 1:
        raise ConfigError(f"--lora {adapter} does not say for which model: write MODEL:{adapter}", param="lora")
    else:
        model = models[0]
    if not separator or not _NAME.fullmatch(name):
        raise ConfigError(
            f"--lora {adapter} must be NAME=SOURCE, with letters, digits, '.', '_', '/', '-'", param="lora"
        )
    if model not in models:
        raise ConfigError(f"--lora is for {model!r}, but the models are: {', '.join(models)}", param="lora")
    return model, name, find_adapter(source)


def _check_adapter_names(adapters: Sequence[str], models: Sequence[str]) -> None:
    names = [*models, *adapters]
    if duplicate := next((name for name in adapters if names.count(name) > 1), None):
        raise ConfigError(f"two models or adapters are called {duplicate!r}; give each its own name", param="lora")


def name_of(text: str) -> str:
    """Returns the name of a model or an adapter. Raises ConfigError for a text that is none."""
    if not _NAME.fullmatch(text):
        raise ConfigError(f"{text!r} cannot be the name of a model: use letters, digits, '.', '_', '/', '-'")
    return text


def find_adapter(source: str) -> Path:
    """Returns the folder of a LoRA adapter. Raises ConfigError."""
    path = Path(source).expanduser()
    if not path.is_dir():
        path = _pulled(source) or path
    if not path.exists() and HUB_ID.fullmatch(source):
        raise _missing(source, "lora")
    if not (path / "adapter_config.json").is_file():
        raise ConfigError(f"{source} is not the folder of a LoRA adapter: it has no adapter_config.json", param="lora")
    return path.resolve()


def _resolve(model: str) -> ModelSource:
    name, separator, source = model.partition("=")
    if not separator:
        name, source = "", model
    folder = _find(source)
    name = name or (source if source in (*BUNDLED, *known_models()) else whole_name(folder.name).removesuffix(".gguf"))
    return ModelSource(name_of(name), folder, DRAFTS.get(folder) or _known_draft(source))


def _find(source: str) -> Path:
    if source in BUNDLED:
        return BUNDLED[source]
    if (known := known_models().get(source)) is not None:
        return _pulled(known.source) or _refuse_unpulled(known)
    path = Path(source).expanduser()
    if path.suffix == ".gguf" and path.is_file():
        return parts_named_like(path.resolve())[0]
    if path.is_dir():
        if not (path / "config.json").exists():
            raise ConfigError(f"{path} is not a Hugging Face checkpoint: it has no config.json", param="model")
        return path.resolve()
    pulled = _pulled(source)
    if pulled is None:
        raise _missing(source, "model")
    return pulled


def _pulled(source: str) -> Path | None:
    """Returns a model that was pulled from the hub; None if there is none of that id."""
    return find_model(source) if HUB_ID.fullmatch(source) else None


def _refuse_unpulled(known: KnownModel) -> NoReturn:
    raise ConfigError(
        f"{known.name} is not on this machine yet. Fetch it: headrace models pull {known.name}. Where it would run: "
        f"headrace plan {known.name}",
        param="model",
    )


def _known_draft(source: str) -> Path | None:
    """Returns the folder of the model that drafts for one of the catalogue, if it was pulled."""
    known = known_models().get(source)
    return None if known is None or known.draft is None else _pulled(known_models()[known.draft].source)


def _missing(source: str, param: str) -> ConfigError:
    """Says what a source is not, and what could be meant."""
    known = ", ".join((*BUNDLED, *known_models()))
    hint = f". If it is a model of the hub: headrace models pull {source}" if HUB_ID.fullmatch(source) else ""
    return ConfigError(
        f"{source} is neither a folder nor a GGUF file, and neither pulled nor in the catalogue ({known}){hint}",
        param=param,
    )
