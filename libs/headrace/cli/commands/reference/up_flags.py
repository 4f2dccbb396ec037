"""Flags of `headrace up`, as its own parser has them."""

import types
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cyclopts import App, Parameter

from headrace.cli.commands.up.up import up

WORDS = {str: "text", int: "integer", float: "number", bool: "switch", Path: "path"}


@dataclass(frozen=True, slots=True)
class UpFlag:
    """A flag, or the models themselves."""

    names: str
    """All its spellings."""
    type: str
    default: Any
    """None where the setting of a service, or what the help says, decides."""
    variable: str
    """Its own environment variable. Empty: none."""
    help: str


def up_flags() -> Iterator[UpFlag]:
    """Yields the flags that `headrace up --help` shows, in its order."""
    command = App(default_parameter=Parameter(negative_iterable=()))
    command.default(up)
    for argument in command.assemble_argument_collection(parse_docstring=True):
        if argument.names == ("*",) or argument.parameter.show is False:
            continue
        default = argument.field_info.default
        yield UpFlag(
            ", ".join(argument.names),
            _type(argument.hint),
            None if default in ((), "", argument.field_info.empty) else default,
            " ".join(argument.parameter.env_var or ()),
            " ".join((argument.parameter.help or "").split()),
        )


def _type(hint: Any) -> str:
    if hint in WORDS:
        return WORDS[hint]
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return " or ".join(f"`{each}`" for each in inside)
    if origin is tuple:
        return f"{_type(inside[0])}, repeatable"
    if origin in (typing.Union, types.UnionType):
        return _type(next(each for each in inside if each is not type(None)))
    raise TypeError(f"no word for the type {hint} of a flag")
