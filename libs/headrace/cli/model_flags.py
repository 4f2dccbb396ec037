"""Command-line flags for the options of a model, made from their one declaration."""

from dataclasses import asdict, make_dataclass
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Group, Parameter

from headrace.engine.contract.engine_config import EngineConfig

GROUP = Group("Model options", help="For every model. What is not given is left to environment, file and defaults.")
WRITTEN_OTHERWISE = {"draft_folder", "adapters"}
"""Options that `headrace up` takes per model instead: --draft and --lora."""


def _flags() -> type:
    """Makes a dataclass of the options, each None unless the user sets it."""
    texts = EngineConfig.help_texts()
    fields: list[tuple[str, Any, Any]] = [
        (name, Annotated[field.annotation | None, Parameter(help=_help(texts[name], field), group=GROUP)], None)  # type: ignore[operator]
        for name, field in EngineConfig.model_fields.items()
        if name not in WRITTEN_OTHERWISE
    ]
    made = make_dataclass("ModelFlags", fields, frozen=True)
    # Moves the class out of module `types`: cyclopts would take a class from there for a single value.
    made.__module__ = __name__
    return Parameter(name="*")(made)


def _help(text: str, field: Any) -> str:
    text = " ".join(text.split())
    return text if field.default is None else f"{text} [default: {field.default}]"


if TYPE_CHECKING:
    ModelFlags = Any
else:
    ModelFlags = _flags()

NO_FLAGS: ModelFlags = ModelFlags()


def given(flags: ModelFlags) -> dict[str, object]:
    """Returns the options that the user set, by name."""
    return {name: value for name, value in asdict(flags).items() if value is not None}
