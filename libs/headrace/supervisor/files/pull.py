"""Pulls models from a hub: resumes where a lost connection or a killed process left off, and checks every file."""

import re
import time
from collections.abc import Callable
from pathlib import Path

import httpx2

from headrace.errors import ConfigError, InvalidCheckpoint, Unavailable
from headrace.supervisor.files.hub_file import (
    TIMEOUT,
    HubFile,
    choose_files,
    hub_headers,
    hub_url,
    list_files,
)
from headrace.supervisor.files.model_folder import models_folder, write_manifest

Report = Callable[[str, int, int], None]
"""Called with the name of a file, the bytes that are there, and all of them."""
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
ATTEMPTS = 5
"""Attempts in a row without a single byte after which a file is given up."""
PAUSE_SECONDS = 0.5
"""Seconds before the second attempt, and half as many as before the third."""


def pull(model: str, report: Report = lambda *_: None) -> Path:
    """Pulls ORG/NAME, or ORG/NAME:PART for the GGUF file with a part in its name. Returns the folder. Raises NotFound,
    ConfigError, Unavailable, or InvalidCheckpoint for a file with another checksum."""
    hub_id, _, part = model.partition(":")
    if not HUB_ID.fullmatch(hub_id):
        raise ConfigError(f"{hub_id!r} is no hub id; one looks like Qwen/Qwen2.5-0.5B-Instruct")
    folder = models_folder() / hub_id
    with httpx2.Client(headers=hub_headers(), timeout=TIMEOUT, follow_redirects=True) as client:
        files = choose_files(list_files(client, hub_id), part)
        for file in files:
            _pull_file(client, f"{hub_url()}/{hub_id}/resolve/main/{file.path}", file, folder / file.path, report)
    write_manifest(folder, {file.path: file.size for file in files})
    return folder


def _pull_file(client: httpx2.Client, url: str, file: HubFile, target: Path, report: Report) -> None:
    if target.exists() and target.stat().st_size == file.size:
        report(file.path, file.size, file.size)
        return
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"cannot put {file.path} into {target.parent}: {error.strerror}") from None
    draft = target.with_name(f"{target.name}.part")
    fruitless = 0
    while (had := draft.stat().st_size if draft.exists() else 0) < file.size or not draft.exists():
        reason = _receive(client, url, file, draft, report)
        if reason is None:
            break
        fruitless = 0 if draft.exists() and draft.stat().st_size > had else fruitless + 1
        if fruitless >= ATTEMPTS:
            raise Unavailable(f"{file.path} could not be received: {reason}; pull again to go on where it stopped")
        time.sleep(PAUSE_SECONDS * 2 ** (fruitless - 1) if fruitless else 0)
    try:
        file.check(draft)
    except InvalidCheckpoint:
        draft.unlink()
        raise
    draft.replace(target)


def _receive(client: httpx2.Client, url: str, file: HubFile, draft: Path, report: Report) -> str | None:
    """Receives the missing bytes. Returns the reason for a failure, or None."""
    start = draft.stat().st_size if draft.exists() else 0
    headers = {"accept-encoding": "identity"} | ({"range": f"bytes={start}-"} if start else {})
    try:
        with client.stream("GET", url, headers=headers) as response:
            if response.status_code not in (httpx2.codes.OK, httpx2.codes.PARTIAL_CONTENT):
                return f"the hub answers {response.status_code}"
            goes_on = response.status_code == httpx2.codes.PARTIAL_CONTENT
            with draft.open("ab" if goes_on else "wb") as output:
                for piece in response.iter_raw():
                    output.write(piece)
                    report(file.path, output.tell(), file.size)
                    if output.tell() > file.size:
                        break
    except httpx2.HTTPError as error:
        return str(error) or type(error).__name__
    return None if draft.stat().st_size >= file.size else "the connection ended early"
