"""Reads settings. Flags win over environment, environment over file, file over defaults.

The starter of a process may choose other defaults, with `--default NAME=VALUE`. An unknown or invalid setting stops the
start, and the error names the setting and its source.
"""

import argparse
import ast
import inspect
import itertools
import os
import textwrap
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, Self, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from headrace.errors import ConfigError
from headrace.errors.near_names import hint

DEFAULTS = "other_defaults"
DEFAULT_HELP = "value for a setting that neither flag, environment nor file gives; may be repeated"
SECTIONS = frozenset({"gateway", "tokenizer", "scheduler", "cache", "worker", "picker", "platform"})
HELP_FLAGS = frozenset({"-h", "--help"})

# Looking for plugins of pydantic reads the metadata of every installed package, which takes tens of milliseconds.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")


class Settings(BaseModel):
    """Base of every service's settings. The docstring under a field is its help text."""

    # A class that others extend is never validated itself, so none is built before its first use.
    model_config = ConfigDict(
        frozen=True, extra="forbid", protected_namespaces=(), validate_default=True, defer_build=True
    )

    @classmethod
    def of(cls, **values: object) -> Self:
        """Validates values that did not come from flags, environment or file. Raises ConfigError naming the setting."""
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise explain(error, "", {}) from None

    @classmethod
    def help_texts(cls) -> dict[str, str]:
        """Returns the help text of every setting that has one, by its name. Reads the source of the class and of its
        bases, so it is for people who ask: a start does without. Raises OSError where there is no source."""
        texts: dict[str, str] = {}
        for each in reversed(cls.__mro__):
            if issubclass(each, Settings):
                texts |= dict(_docstrings(each))
        return {name: texts[name] for name in cls.model_fields if name in texts}


def _docstrings(schema: type[Settings]) -> Iterator[tuple[str, str]]:
    """Yields the names of a class's own fields, with the text that stands as a string below each."""
    (found,) = ast.parse(textwrap.dedent(inspect.getsource(schema))).body
    for pair in itertools.pairwise(found.body if isinstance(found, ast.ClassDef) else []):
        match pair:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                yield name, inspect.cleandoc(text)


S = TypeVar("S", bound=Settings)


def load(schema: type[S], section: str, argv: Sequence[str], environ: Mapping[str, str]) -> S:
    """Reads one service's settings.

    `section` names the TOML table, and in upper case the environment prefix: `HEADRACE_GATEWAY_HTTP_PORT`.
    Raises ConfigError.
    """
    merged: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for layer in read_layers(schema, section, argv, environ):
        merged.update(layer.values)
        origins.update(dict.fromkeys(layer.values, layer.origin))
    try:
        return schema.model_validate(merged)
    except ValidationError as error:
        raise explain(error, section, origins) from None


@dataclass(frozen=True, slots=True)
class SettingsLayer:
    """Values that came from one place."""

    origin: str
    """default, file, environment or flag."""
    values: Mapping[str, Any]
    place: str = ""
    """The file, or how the names of settings are written there."""

    def origin_of(self, name: str) -> str:
        """Says where a value came from, as a person would look for it."""
        match self.origin:
            case "flag":
                return f"flag --{name.replace('_', '-')}"
            case "environment":
                return f"environment {self.place}{name.upper()}"
            case "file":
                return f"file {self.place}"
            case _:
                return "default of the process that started it"


def read_layers(
    schema: type[Settings], section: str, argv: Sequence[str], environ: Mapping[str, str]
) -> tuple[SettingsLayer, ...]:
    """Reads what was given for a service, not yet validated. Later layers win. Raises ConfigError."""
    flags = _parse_flags(schema, section, argv)
    defaults = _read_defaults(schema, section, flags.pop(DEFAULTS, []))
    file = flags.pop("config_file", None) or environ.get("HEADRACE_CONFIG")
    return (
        SettingsLayer("default", defaults),
        SettingsLayer("file", _read_file(schema, section, Path(file)) if file else {}, str(file or "")),
        SettingsLayer("environment", _read_environment(schema, section, environ), f"HEADRACE_{section.upper()}_"),
        SettingsLayer("flag", flags),
    )


def explain(error: ValidationError, section: str, origins: Mapping[str, str]) -> ConfigError:
    """Returns the error that names the first setting at fault, and its source."""
    first = error.errors()[0]
    name = str(first["loc"][0]) if first["loc"] else section
    setting = f"{section}.{name}" if section else name
    value = "" if first["type"] == "missing" else f" = {first['input']!r}"
    origin = f" (from {origins[name]})" if name in origins else ""
    return ConfigError(f"setting {setting}{value}{origin}: {first['msg']}", param=name)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{self.prog}: {message}; see --help for the settings that exist")


def _parse_flags(schema: type[Settings], section: str, argv: Sequence[str]) -> dict[str, Any]:
    parser = _Parser(prog=f"headrace.{section}", description=schema.__doc__, allow_abbrev=False)
    parser.add_argument("--config", dest="config_file", help="TOML file with a table per service", default=None)
    parser.add_argument("--default", dest=DEFAULTS, help=DEFAULT_HELP, metavar="NAME=VALUE", action="append")
    texts = schema.help_texts() if HELP_FLAGS.intersection(argv) else {}
    for name, field in schema.model_fields.items():
        flag = "--" + name.replace("_", "-")
        text = f"{texts.get(name, '')} [default: {field.default}]".replace("%", "%%")
        if field.annotation is bool:
            parser.add_argument(flag, dest=name, action=argparse.BooleanOptionalAction, default=None, help=text)
        else:
            parser.add_argument(flag, dest=name, default=None, help=text, metavar="VALUE")
    return {name: value for name, value in vars(parser.parse_args(argv)).items() if value is not None}


def _read_defaults(schema: type[Settings], section: str, pairs: Sequence[str]) -> dict[str, Any]:
    values = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
    for name in values:
        if name not in schema.model_fields:
            near = hint(name, schema.model_fields)
            raise ConfigError(f"unknown setting {section}.{name} in --default{near}", param=name)
    return values


def _read_environment(schema: type[Settings], section: str, environ: Mapping[str, str]) -> dict[str, Any]:
    prefix = f"HEADRACE_{section.upper()}_"
    values = {key[len(prefix) :].lower(): value for key, value in environ.items() if key.startswith(prefix)}
    for name in values:
        if name not in schema.model_fields:
            near = hint(name.upper(), map(str.upper, schema.model_fields), prefix + "{}")
            raise ConfigError(f"unknown setting in the environment, {prefix}{name.upper()}{near}", param=name)
    return values


def _read_file(schema: type[Settings], section: str, path: Path) -> dict[str, Any]:
    try:
        tables = tomllib.loads(path.read_text())
    except OSError as error:
        raise ConfigError(f"cannot read the configuration file {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"the configuration file {path} is not TOML: {error}") from None
    for name in tables:
        if name not in SECTIONS:
            known = f"; known: {', '.join(sorted(SECTIONS))}"
            near = hint(name, SECTIONS, "[{}]") or known
            raise ConfigError(f"unknown table [{name}] in {path}{near}", param=name)
    table = tables.get(section, {})
    for name in table:
        if name not in schema.model_fields:
            near = hint(name, schema.model_fields, section + ".{}")
            raise ConfigError(f"unknown setting {section}.{name} in {path}{near}", param=name)
    return dict(table)
