"""`headrace explain`: shows what the schedulers did with a request, or how many workers they want, and why."""

import asyncio
import contextlib
import os
import time
from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar

from cyclopts import Parameter
from google.protobuf.json_format import MessageToDict
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from headrace.cli.commands.cached_tokens import cached_sentence
from headrace.cli.commands.platform.scaling_page import show_scaling
from headrace.cli.commands.trace import find
from headrace.cli.output import console, print_json
from headrace.cli.target import platform_url
from headrace.errors import HeadraceError, NotFound, Unauthenticated, Unavailable
from headrace.rpc.channel import Channel, OpenChannel, open_channel
from headrace.service_clients.scheduler import explain as ask
from headrace.service_clients.scheduler import get_demand
from headrace.settings.secret_file import read_secret
from headrace.supervisor.security.platform_certificates import operator_identity
from headrace.supervisor.state import DEFAULT_FOLDER, read_credential, read_platform
from headrace.v1.scheduler_pb2 import JournalEntry, ModelDemand

TIMEOUT = 5.0
INDENT = 13
SCALING = "scaling"
Answer = TypeVar("Answer")
CREDENTIAL_VARIABLE = "HEADRACE_SCHEDULER_CREDENTIAL"
CREDENTIAL_FILE_VARIABLE = f"{CREDENTIAL_VARIABLE}_FILE"


def explain(
    request: str,
    *,
    state_dir: Path = DEFAULT_FOLDER,
    address: str = "",
    certificates: Path | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Shows what happened to a request in the queue, which workers were eligible, and why one got it; or how many
    workers each model needs.

    Parameters
    ----------
    request
        The id of the request: `id` in the answer without `chatcmpl-` or `cmpl-`, or its header x-request-id. Or
        scaling, for the workers that are wanted, and the last decisions about them.
    state_dir
        The state folder that the platform was started with.
    address
        Address of one scheduler to ask, instead of those of the state folder. Its credential, if it has one, is read
        from HEADRACE_SCHEDULER_CREDENTIAL, or from the file that HEADRACE_SCHEDULER_CREDENTIAL_FILE names.
    certificates
        Folder of headrace certs, where the scheduler of the address has a certificate.
    json
        Print one JSON object.
    """
    addresses = [address] if address else _schedulers(state_dir)
    credential = _given_credential() or ("" if address else read_credential(state_dir))
    identity = operator_identity(certificates, {} if address else read_platform(state_dir))
    opened = partial(open_channel, credential=credential, identity=identity, role="scheduler")
    if request == SCALING:
        show_scaling(asyncio.run(_ask_all(addresses, _demands, opened)), as_json=json)
        return
    request_id = request.removeprefix("chatcmpl-").removeprefix("cmpl-")
    entries = asyncio.run(_ask_all(addresses, partial(_entries, request_id), opened))
    entries.sort(key=lambda entry: -entry.age_seconds)
    if not entries:
        raise NotFound(f"request {request} was not found: schedulers keep only the newest few thousand requests")
    record = {} if address else _record(state_dir, request_id)
    if json:
        places = record.get("cached_tokens_from", {})
        described = [_as_dict(entry) for entry in entries]
        print_json({"request": request_id, "entries": described, "cached_tokens_from": places})
        return
    first = entries[0].age_seconds
    began = datetime.fromtimestamp(time.time() - first).astimezone()
    console.print(f"[dim]{began:%Y-%m-%d %H:%M:%S}, and seconds from then:[/]")
    for entry in entries:
        console.print(f"[dim]{first - entry.age_seconds:+9.3f} s[/]  {escape(entry.text)}", soft_wrap=True)
        if entry.candidates:
            console.print(Padding(_table(entry), (0, 0, 0, INDENT)))
    if record:
        console.print(cached_sentence(record), soft_wrap=True)
    console.print(f"[dim]Where the time went: headrace trace {request_id}[/]", soft_wrap=True)


def _record(state_dir: Path, request_id: str) -> dict[str, Any]:
    """Returns a gateway's record of a request; nothing where there is none that may be seen with the key at hand."""
    with contextlib.suppress(HeadraceError):
        return find(platform_url("", state_dir), request_id)
    return {}


def _given_credential() -> str:
    """Returns the credential in the environment, where a scheduler finds its own. Raises ConfigError."""
    file = os.environ.get(CREDENTIAL_FILE_VARIABLE, "")
    return os.environ.get(CREDENTIAL_VARIABLE, "") or (
        read_secret(Path(file), CREDENTIAL_FILE_VARIABLE) if file else ""
    )


def _schedulers(state_dir: Path) -> list[str]:
    services = read_platform(state_dir)["services"]
    return [service["address"] for service in services if service["name"].partition("-")[0] == "scheduler"]


async def _ask_all(
    addresses: list[str], question: Callable[[Channel], Awaitable[list[Answer]]], opened: OpenChannel
) -> list[Answer]:
    """Returns the answers of all schedulers. Raises Unavailable if none answers, or Unauthenticated."""
    questions = (_ask_one(one, question, opened) for one in addresses)
    answers = await asyncio.gather(*questions, return_exceptions=True)
    known = [answer for answer in answers if not isinstance(answer, BaseException)]
    if not known:
        if any(isinstance(answer, Unauthenticated) for answer in answers):
            hint = f"set {CREDENTIAL_VARIABLE} to the one that the platform was started with"
            raise Unauthenticated(f"the scheduler answers only callers with the platform's credential: {hint}")
        hint = "if the platform uses certificates, name their folder with --certificates"
        raise Unavailable(f"no scheduler answers at {', '.join(addresses)}; {hint}")
    return [one for answer in known for one in answer]


async def _ask_one(
    address: str, question: Callable[[Channel], Awaitable[list[Answer]]], opened: OpenChannel
) -> list[Answer]:
    async with opened(address) as channel:
        return await question(channel)


async def _entries(request_id: str, channel: Channel) -> list[JournalEntry]:
    return list((await ask(channel, request_id, TIMEOUT)).entries)


async def _demands(channel: Channel) -> list[ModelDemand]:
    return list((await get_demand(channel, TIMEOUT)).demands)


def _as_dict(entry: JournalEntry) -> dict[str, object]:
    return dict(MessageToDict(entry, preserving_proto_field_name=True, always_print_fields_with_no_presence=True))


def _table(entry: JournalEntry) -> Table:
    table = Table(box=None, header_style="dim", pad_edge=False)
    for title in ("worker", "load", "blocks held", "on disk", "first token", "price", ""):
        table.add_column(title)
    for number, candidate in enumerate(entry.candidates):
        table.add_row(
            candidate.worker_id,
            str(candidate.load),
            str(candidate.held_block_count),
            str(candidate.kept_block_count),
            f"{candidate.first_token_seconds * 1000:.0f} ms",
            f"{candidate.price:.6f}",
            candidate.remark or ("chosen" if number == 0 else ""),
        )
    return table
