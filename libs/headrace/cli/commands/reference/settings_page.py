"""Page of all settings and flags, in Markdown."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from headrace.cli.commands.reference.setting_types import type_of, unit_of
from headrace.cli.commands.reference.up_flags import up_flags

HEAD = """\
# Settings

Every setting of every service, and every flag of `headrace up`. This page is made by `headrace config reference`; a
test keeps it equal to what the services say of themselves.

A value is given in one of four ways, of which the first wins:

1. a flag of the service's process: `--max-body-bytes 1000000`,
2. its variable in the environment: `HEADRACE_GATEWAY_MAX_BODY_BYTES=1000000`,
3. its line in the TOML file named by `--config` or `HEADRACE_CONFIG`: `max_body_bytes = 1000000` in the table
   `[gateway]`,
4. the default.

`headrace up` passes the environment and the file on to all services. Lists and tables may be written as text: `a,b` and
`name=value,other=value`. A setting that is unknown or out of bounds stops the start, with its name and where it came
from. `headrace config show --origin` says what a running platform has; `headrace config schema` prints a JSON schema
for editors.
"""
SERVICE_COLUMNS = ("Setting and variable", "Type", "Unit", "Default", "Meaning")
FLAG_COLUMNS = ("Flag", "Type", "Default", "Meaning")


def settings_page(services: Sequence[Mapping[str, Any]], others: Sequence[Mapping[str, Any]] = ()) -> str:
    """Returns the page.

    Args:
        services: Descriptions of services, as they print them: `section`, `settings` and `schema`.
        others: Descriptions of processes that are no part of a platform.
    """
    shared = set.intersection(*({setting["name"] for setting in each["settings"]} for each in services))
    parts = [HEAD, *_flags(), "## Every service\n"]
    parts += ["A variable has the name of the service in it, such as `HEADRACE_WORKER_LOG_LEVEL`.\n"]
    parts += [*_table(SERVICE_COLUMNS, _shared_rows(services, shared)), ""]
    for described in services:
        own = [each for each in described["settings"] if each["name"] not in shared]
        parts += _section(described, own)
    for described in others:
        parts += _section(described, described["settings"])
    return "\n".join(parts)


def _section(described: Mapping[str, Any], settings: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    yield f"## {described['section'].capitalize()}\n"
    yield from _table(SERVICE_COLUMNS, [_row(described, each, _default(each["default"])) for each in settings])
    yield ""


def _flags() -> Iterator[str]:
    yield "## headrace up\n"
    yield "What is unset here is left to the environment, the file and the defaults of services.\n"
    rows = []
    for flag in up_flags():
        variable = f"<br>`{flag.variable}`" if flag.variable else ""
        default = "" if flag.default is None else _code(str(flag.default).lower())
        rows.append((_code(flag.names) + variable, flag.type, default, flag.help))
    yield from _table(FLAG_COLUMNS, rows)
    yield ""


def _shared_rows(services: Sequence[Mapping[str, Any]], names: set[str]) -> Iterator[Sequence[str]]:
    """Yields a row per setting that all services have, but for those of tests."""
    first = services[0]
    for setting in first["settings"]:
        if setting["name"] in names and not setting["help"].startswith("For tests only"):
            defaults = {each["section"]: _default(_of(each, setting["name"])["default"]) for each in services}
            yield _row({**first, "section": "SERVICE"}, setting, _together(defaults))


def _of(described: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return next(setting for setting in described["settings"] if setting["name"] == name)


def _together(defaults: Mapping[str, str]) -> str:
    """Returns the default of all services, or each one's where they differ."""
    if len(set(defaults.values())) == 1:
        return next(iter(defaults.values()))
    return ", ".join(f"{section} {default}" for section, default in defaults.items())


def _row(described: Mapping[str, Any], setting: Mapping[str, Any], default: str) -> Sequence[str]:
    name = setting["name"]
    kind = type_of(described["schema"]["properties"][name]) + (", secret" if setting["secret"] else "")
    variable = f"HEADRACE_{described['section']}_{name}".upper()
    return f"`{name}`<br>`{variable}`", kind, unit_of(name), default, setting["help"]


def _default(value: Any) -> str:
    if value is None or value in ("", [], {}):
        return ""
    if isinstance(value, list):
        return _code(",".join(map(str, value)))
    if isinstance(value, dict):
        return _code(",".join(f"{name}={each}" for name, each in value.items()))
    return _code(value if isinstance(value, str) else json.dumps(value))


def _code(text: str) -> str:
    return f"`{text}`"


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(columns)} |"
    yield "|" + "---|" * len(columns)
    for row in rows:
        yield f"| {' | '.join(_cell(each) for each in row)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
