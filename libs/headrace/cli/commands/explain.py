"""`headrace explain`: shows what the schedulers did with a request, and why."""

import asyncio
import os
import time
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from google.protobuf.json_format import MessageToDict
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from headrace.cli.output import console, print_json
from headrace.errors import NotFound, Unauthenticated, Unavailable
from headrace.rpc.channel import OpenChannel, open_channel
from headrace.service_clients.scheduler import explain as ask
from headrace.settings.secret_file import read_secret
from headrace.supervisor.security.platform_certificates import operator_identity
from headrace.supervisor.state import DEFAULT_FOLDER, read_credential, read_platform
from headrace.v1.scheduler_pb2 import JournalEntry

TIMEOUT = 5.0
INDENT = 13
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
    """Shows what happened to a request in the queue, which workers were eligible, and why one got it.

    Parameters
    ----------
    request
        The id of the request: `id` in the answer without `chatcmpl-` or `cmpl-`, or its header x-request-id.
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
    request_id = request.removeprefix("chatcmpl-").removeprefix("cmpl-")
    addresses = [address] if address else _schedulers(state_dir)
    credential = _given_credential() or ("" if address else read_credential(state_dir))
    identity = operator_identity(certificates, {} if address else read_platform(state_dir))
    opened = partial(open_channel, credential=credential, identity=identity, role="scheduler")
    entries = asyncio.run(_ask_all(addresses, request_id, opened))
    if not entries:
        raise NotFound(f"request {request} was not found: schedulers keep only the newest few thousand requests")
    if json:
        print_json({"request": request_id, "entries": [_as_dict(entry) for entry in entries]})
        return
    first = entries[0].age_seconds
    began = datetime.fromtimestamp(time.time() - first).astimezone()
    console.print(f"[dim]{began:%Y-%m-%d %H:%M:%S}, and seconds from then:[/]")
    for entry in entries:
        console.print(f"[dim]{first - entry.age_seconds:+9.3f} s[/]  {escape(entry.text)}", soft_wrap=True)
        if entry.candidates:
            console.print(Padding(_table(entry), (0, 0, 0, INDENT)))
    console.print(f"[dim]Where the time went: headrace trace {request_id}[/]", soft_wrap=True)


def _given_credential() -> str:
    """Returns the credential in the environment, where a scheduler finds its own. Raises ConfigError."""
    file = os.environ.get(CREDENTIAL_FILE_VARIABLE, "")
    return os.environ.get(CREDENTIAL_VARIABLE, "") or (
        read_secret(Path(file), CREDENTIAL_FILE_VARIABLE) if file else ""
    )


def _schedulers(state_dir: Path) -> list[str]:
    services = read_platform(state_dir)["services"]
    return [service["address"] for service in services if service["name"].partition("-")[0] == "scheduler"]


async def _ask_all(addresses: list[str], request_id: str, opened: OpenChannel) -> list[JournalEntry]:
    """Returns the entries of all schedulers, oldest first. Raises Unavailable if none answers, or Unauthenticated."""
    questions = (_ask_one(one, request_id, opened) for one in addresses)
    answers = await asyncio.gather(*questions, return_exceptions=True)
    known = [answer for answer in answers if not isinstance(answer, BaseException)]
    if not known:
        if any(isinstance(answer, Unauthenticated) for answer in answers):
            hint = f"set {CREDENTIAL_VARIABLE} to the one that the platform was started with"
            raise Unauthenticated(f"the scheduler answers only callers with the platform's credential: {hint}")
        hint = "if the platform uses certificates, name their folder with --certificates"
        raise Unavailable(f"no scheduler answers at {', '.join(addresses)}; {hint}")
    return sorted((entry for answer in known for entry in answer), key=lambda entry: -entry.age_seconds)


async def _ask_one(address: str, request_id: str, opened: OpenChannel) -> list[JournalEntry]:
    async with opened(address) as channel:
        return list((await ask(channel, request_id, TIMEOUT)).entries)


def _as_dict(entry: JournalEntry) -> dict[str, object]:
    return dict(MessageToDict(entry, preserving_proto_field_name=True, always_print_fields_with_no_presence=True))


def _table(entry: JournalEntry) -> Table:
    table = Table(box=None, header_style="dim", pad_edge=False)
    for title in ("worker", "load", "blocks held", "first token", "price", ""):
        table.add_column(title)
    for number, candidate in enumerate(entry.candidates):
        table.add_row(
            candidate.worker_id,
            str(candidate.load),
            str(candidate.held_block_count),
            f"{candidate.first_token_seconds * 1000:.0f} ms",
            f"{candidate.price:.6f}",
            candidate.remark or ("chosen" if number == 0 else ""),
        )
    return table
