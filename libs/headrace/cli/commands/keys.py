"""`headrace keys`: gives out API keys, and takes them back."""

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from headrace.access.api_key import ApiKey
from headrace.access.key_file import FILE_NAME, KeyFile
from headrace.access.key_record import DEFAULT_SCOPES, KeyRecord
from headrace.cli.duration import parse_duration
from headrace.cli.output import console, error_console, print_json
from headrace.cli.terminal.key_lines import key_lines
from headrace.cli.terminal.own_command import state_flag
from headrace.errors import NotFound
from headrace.supervisor.state import DEFAULT_FOLDER

keys = App(name="keys", help="Gives out API keys, and takes them back.")
_Json = Annotated[bool, Parameter(negative="")]
_File = Annotated[Path | None, Parameter(name="--file")]
_List = Parameter(negative="")


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class LimitFlags:
    """Limits on the use of a key."""

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    """Tokens of prompts and outputs together."""
    requests_per_day: int | None = None
    tokens_per_day: int | None = None
    concurrency: int | None = None
    """Requests that run at once."""


_NO_LIMITS = LimitFlags()


@keys.command
def create(
    name: str,
    *,
    tenant: str = "",
    scope: Annotated[tuple[Literal["generate", "embed", "admin"], ...], _List] = (),
    expires: str = "",
    model: Annotated[tuple[str, ...], _List] = (),
    limits: LimitFlags = _NO_LIMITS,
    weight: float = 1.0,
    highest_class: Literal["realtime", "interactive", "default", "batch"] = "realtime",
    longest_deadline: str = "",
    state_dir: Path = DEFAULT_FOLDER,
    file: _File = None,
    json: _Json = False,
) -> None:
    """Makes a key and prints it. It is not stored, and cannot be shown again.

    Args:
        name: A name for the key, such as that of its holder.
        tenant: The party that pays: keys of a tenant share its cached prefixes and its usage. Default: the name.
        scope: What the key is good for: generate, embed, admin; may be repeated. Default: generate and embed.
        expires: Time after which the key no longer works, such as 12h or 30d. Default: never.
        model: A model that the key may use; may be repeated. Default: all.
        limits: Limits on the use of the key.
        weight: Share of the key's requests against others while requests wait.
        highest_class: More urgent requests are treated as this class.
        longest_deadline: Maximum time that a request may take, such as 90s.
        state_dir: The state folder of the platform.
        file: The file of keys, if it is not in the state folder.
        json: Print one JSON object.
    """
    key_file = _key_file(state_dir, file)
    is_first = not key_file.path.exists()
    key, record = key_file.create(
        name,
        tenant,
        scopes=scope or DEFAULT_SCOPES,
        expires=time.time() + parse_duration(expires, "expires") if expires else None,
        models=model,
        limits=asdict(limits),
        weight=weight,
        highest_class=highest_class,
        longest_deadline=parse_duration(longest_deadline, "longest-deadline") if longest_deadline else None,
    )
    _show_secret(key, record, json)
    if is_first:
        error_console.print(
            f"[dim]This is the first key of {key_file.path}. A platform of this state folder asks for keys from "
            "now on, also if it runs already.[/]",
            soft_wrap=True,
        )


@keys.command(name="list")
def list_keys(*, state_dir: Path = DEFAULT_FOLDER, file: _File = None, json: _Json = False) -> None:
    """Lists the keys, without their secrets.

    Args:
        state_dir: The state folder of the platform.
        file: The file of keys, if it is not in the state folder.
        json: Print one JSON object.
    """
    records = list(_known_keys(state_dir, file).read().values())
    if json:
        print_json({"keys": [record.described() for record in records]})
    else:
        for line in key_lines(records):
            console.print(line)


@keys.command
def rotate(
    key_id: str, *, overlap: str = "", state_dir: Path = DEFAULT_FOLDER, file: _File = None, json: _Json = False
) -> None:
    """Gives a key a new secret. Id, limits and usage stay.

    Args:
        key_id: The id of the key: what stands between the dashes.
        overlap: Time for which the former key works too, such as 1h. Default: it ends at once.
        state_dir: The state folder of the platform.
        file: The file of keys, if it is not in the state folder.
        json: Print one JSON object.
    """
    seconds = parse_duration(overlap, "overlap") if overlap else 0.0
    _show_secret(*_known_keys(state_dir, file).rotate(key_id, seconds), as_json=json)


@keys.command
def revoke(key_id: str, *, state_dir: Path = DEFAULT_FOLDER, file: _File = None, json: _Json = False) -> None:
    """Ends a key for good. Gateways know within a second; running requests may finish.

    Args:
        key_id: The id of the key: what stands between the dashes.
        state_dir: The state folder of the platform.
        file: The file of keys, if it is not in the state folder.
        json: Print one JSON object.
    """
    record = _known_keys(state_dir, file).revoke(key_id)
    if json:
        print_json(record.described())
    else:
        console.print(f"revoked {record.id} ({record.name})")


def _key_file(state_dir: Path, file: Path | None) -> KeyFile:
    return KeyFile(file or state_dir / FILE_NAME)


def _known_keys(state_dir: Path, file: Path | None) -> KeyFile:
    """Returns the file of keys. Raises NotFound where none was made yet."""
    found = _key_file(state_dir, file)
    if not found.path.exists():
        place = f" --file {file}" if file else state_flag(state_dir)
        raise NotFound(f"there are no keys yet: headrace keys create NAME{place}")
    return found


def _show_secret(key: ApiKey, record: KeyRecord, as_json: bool) -> None:
    """Prints the key alone on stdout, so that a script can take it, and the advice on stderr."""
    if as_json:
        print_json({"key": key.text} | record.described())
        return
    console.print(key.text, soft_wrap=True, markup=False)
    error_console.print(
        "[dim]Copy it now: it will not be shown again. Clients send it as their API key, as in HEADRACE_API_KEY.[/]",
        soft_wrap=True,
    )
