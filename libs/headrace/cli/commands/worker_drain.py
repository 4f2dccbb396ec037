"""`headrace drain`: takes a worker, or all workers of a host, away without ending a request."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import httpx2
from cyclopts import Parameter

from headrace.cli.output import console, print_json
from headrace.cli.reach.platform_http import get, reaching
from headrace.cli.target import AuthorityFlag, KeyFlag, key_headers, platform_url
from headrace.client.http_errors import error_of
from headrace.domain.deadline import Deadline
from headrace.errors import DeadlineExceeded, InvalidRequest, NotFound
from headrace.rpc.member_address import split
from headrace.settings.web.connection_options import connection_options
from headrace.settings.web.web_names import host_name
from headrace.supervisor.state import DEFAULT_FOLDER

TIMEOUT = 10.0
LOOK_SECONDS = 0.25

Worker = Mapping[str, Any]
"""A worker as /headrace/fleet describes it."""


def drain(
    name: str,
    *,
    patience: float = 0.0,
    timeout: float = 120.0,
    force: Annotated[bool, Parameter(negative="")] = False,
    key: KeyFlag = "",
    url: str = "",
    ca: AuthorityFlag = None,
    state_dir: Path = DEFAULT_FOLDER,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Takes a worker away without ending a request: it takes no new ones, its streams continue on other workers, and
    its process ends. Whatever started the process may start it again.

    Parameters
    ----------
    name
        A worker, as headrace ps and the console name it, or a host, whose workers go together.
    patience
        Seconds in which running requests may still end where they are. By default they move at once.
    timeout
        Seconds to wait, beyond the patience, until the workers have ended.
    force
        Drain also the last workers of a model. Their requests then wait for the next one.
    key
        API key with the scope admin, where the platform asks for one. Better given as HEADRACE_API_KEY.
    url
        Address of a gateway, instead of that of the state folder.
    state_dir
        The state folder that the platform was started with.
    json
        Print one JSON object per change.
    """
    if patience < 0 or timeout <= 0:
        raise InvalidRequest("--patience must be 0 or more, and --timeout above 0")
    gateway = platform_url(url, state_dir, ca)
    known = _workers(gateway, key)
    leaving = _named(name, known)
    if not force:
        _check_others(leaving, known)
    body = {"patience_seconds": patience, "force": True}
    for worker in leaving:
        told = _post(f"{gateway}/headrace/workers/{worker['id']}/drain", body, key)
        _show(worker["id"], "draining", told["sessions"], json)
    _follow(gateway, key, leaving, Deadline.after(patience + timeout), json)


def _workers(gateway: str, key: str) -> list[Worker]:
    response = _checked(get(f"{gateway}/headrace/fleet", key_headers(key), TIMEOUT))
    workers: list[Worker] = response.json()["workers"]
    return workers


def _post(url: str, body: Mapping[str, Any], key: str) -> Any:
    with reaching(url):
        response = httpx2.post(url, json=body, headers=key_headers(key), timeout=TIMEOUT, **connection_options(url))
    return _checked(response).json()


def _checked(response: httpx2.Response) -> httpx2.Response:
    """Returns a response without an error. Raises the one that it describes."""
    if response.is_error:
        raise error_of(response.status_code, response.headers, response.content)
    return response


def _named(name: str, workers: Sequence[Worker]) -> list[Worker]:
    """Returns the worker of this name, or the workers of the host. Raises NotFound."""
    found = [worker for worker in workers if worker["id"] == name]
    found = found or [worker for worker in workers if _host(worker) == host_name(name)]
    if not found:
        ids = ", ".join(worker["id"] for worker in workers) or "none"
        hosts = ", ".join(sorted({_host(worker) for worker in workers} - {""})) or "none"
        raise NotFound(f"there is no worker and no host {name!r}; workers: {ids}; hosts: {hosts}")
    return found


def _host(worker: Worker) -> str:
    return host_name(worker["address"] or "")


def _check_others(leaving: Sequence[Worker], known: Sequence[Worker]) -> None:
    """Raises InvalidRequest if a model loses its last worker."""
    processes = {split(worker["address"] or "")[0] for worker in leaving}
    stay = [one for one in known if split(one["address"] or "")[0] not in processes and one["state"] == "ready"]
    left = {worker["model"] for worker in leaving} - {worker["model"] for worker in stay}
    if left:
        raise InvalidRequest(
            f"no other worker is ready for {', '.join(sorted(left))}, whose requests would wait for one: start another "
            "first, or use --force"
        )


def _follow(gateway: str, key: str, leaving: Sequence[Worker], deadline: Deadline, json: bool) -> None:
    """Shows what the workers still run until each has ended. Raises DeadlineExceeded."""
    started = {worker["id"]: worker["started"] for worker in leaving}
    shown: dict[str, int] = {}
    while started:
        now = {worker["id"]: worker for worker in _workers(gateway, key)}
        for worker_id in list(started):
            worker = now.get(worker_id)
            if worker is None or worker["started"] != started[worker_id]:
                del started[worker_id]
                _show(worker_id, "ended", 0, json)
            elif worker["state"] == "draining" and shown.get(worker_id) != worker["sessions"]:
                shown[worker_id] = worker["sessions"]
                _show(worker_id, "draining", worker["sessions"], json)
        if started and deadline.expired:
            raise DeadlineExceeded(f"these still run: {', '.join(started)}; they end as soon as their requests have")
        time.sleep(LOOK_SECONDS if started else 0)


def _show(worker_id: str, state: str, session_count: int, json: bool) -> None:
    if json:
        print_json({"worker": worker_id, "state": state, "sessions": session_count})
    else:
        left = f"{session_count} request{'' if session_count == 1 else 's'} left" if state == "draining" else ""
        console.print(f"{worker_id}  [{'yellow' if left else 'green'}]{state}[/]  {left}".rstrip())
