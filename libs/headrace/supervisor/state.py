"""State folder of a platform: its lock, its credential and its description."""

import contextlib
import fcntl
import json
import os
import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.errors import ConfigError, Forbidden, NotFound
from headrace.storage.private_files import close_all_to_others, close_to_others
from headrace.storage.whole_file import write_whole
from headrace.supervisor.spawning.process_start import ProcessStart
from headrace.supervisor.system.process_identity import ProcessIdentity

DEFAULT_FOLDER = Path("~/.local/state/headrace")
PLATFORM_FILE = "platform.json"
KEPT_FOLDERS = ("logs", "nats", "cache")
"""Folders that a platform continues to use when it is started again."""
LOCK_FILE = "lock"
CREDENTIAL_FILE = "credential"
STARTS_FILE = "starts.json"
"""File of what each service was started with, secrets too: only this user can read it."""
FILES_FOLDER = "files"
"""Folder of the files and batches of clients. It stays when the platform ends."""
USAGE_FOLDER = "usage"
"""Folder of the records of what requests used. It stays when the platform ends, as does the file of keys."""

SUPERVISOR_LOG = "supervisor"
"""Name of the log of the process that starts and watches the services."""
CLOCK_SECONDS = 1.0
"""Seconds by which two clocks of one machine may differ."""
LOCK_SECONDS = 0.5
"""Seconds for which a start waits for the lock: commands that ask who holds it hold it for a moment themselves."""
LOCK_INTERVAL = 0.02

WORKERS_FOLDER = "workers"
"""Folder of the addresses of workers, a file for each service that keeps them."""


class StateFolder:
    """Folder of one platform at a time. Use it as a context manager; raises ConfigError when another platform runs on
    it."""

    def __init__(self, path: Path) -> None:
        self.path = path.expanduser().absolute()
        self._lock = -1

    def __enter__(self) -> "StateFolder":
        is_own = not self.path.exists() or all((self.path / name).is_dir() for name in KEPT_FOLDERS)
        try:
            for name in KEPT_FOLDERS:
                (self.path / name).mkdir(parents=True, exist_ok=True)
                close_all_to_others(self.path / name)
            if is_own:
                close_to_others(self.path)
        except OSError as error:
            raise ConfigError(
                f"cannot use {self.path} as the state folder: {error.strerror}", param="state-dir"
            ) from None
        self._lock = self._acquire()
        # One that was killed left its description.
        (self.path / PLATFORM_FILE).unlink(missing_ok=True)
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(FileNotFoundError):
            (self.path / PLATFORM_FILE).unlink()
        for name in (CREDENTIAL_FILE, STARTS_FILE):
            (self.path / name).unlink(missing_ok=True)
        (self.path / LOCK_FILE).unlink(missing_ok=True)
        os.close(self._lock)

    def log_path(self, name: str) -> Path:
        return self.path / "logs" / f"{name}.log"

    def write(self, platform: dict[str, Any]) -> None:
        """Replaces the description of the running platform as a whole."""
        # Only of use while the supervisor runs, which must not wait for a disk.
        write_whole(self.path / PLATFORM_FILE, json.dumps(platform), durable=False)

    def write_starts(self, starts: Mapping[str, ProcessStart]) -> None:
        """Replaces the description of what services are started with, by name."""
        described = {
            name: {"module": start.module, "arguments": list(start.arguments), "environment": dict(start.environment)}
            for name, start in starts.items()
        }
        write_whole(self.path / STARTS_FILE, json.dumps(described), durable=False)

    def make_credential(self) -> str:
        """Makes a new secret for the services of this platform, in a file that only this user can read."""
        # Begins with letters, because NATS reads a value that begins with a digit as a number.
        credential = f"hr-{secrets.token_hex(16)}"
        path = self.path / CREDENTIAL_FILE
        path.unlink(missing_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(credential)
        return credential

    def _acquire(self) -> int:
        """Takes a lock that ends with the process, and writes into it whose it is. The loop covers a lock file that its
        owner has just removed."""
        path = self.path / LOCK_FILE
        deadline = time.monotonic() + LOCK_SECONDS
        while True:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                if time.monotonic() > deadline:
                    raise ConfigError(_in_use(self.path), param="state-dir") from None
                time.sleep(LOCK_INTERVAL)
                continue
            with contextlib.suppress(FileNotFoundError):
                if os.fstat(descriptor).st_ino == path.stat().st_ino:
                    _sign(descriptor)
                    return descriptor
            os.close(descriptor)


def _sign(descriptor: int) -> None:
    """Writes the identity of this process into its lock."""
    identity = ProcessIdentity.of(os.getpid())
    os.ftruncate(descriptor, 0)
    if identity is not None:
        os.pwrite(descriptor, json.dumps({"pid": identity.pid, "birth": identity.birth}).encode(), 0)


def _in_use(path: Path) -> str:
    """Says which platform keeps another from starting on its folder."""
    process = ""
    with contextlib.suppress(NotFound):
        holder = holder_of(path)
        process = f" (pid {holder.pid})" if holder else ""
    flag = "" if path == DEFAULT_FOLDER.expanduser().absolute() else f" --state-dir {path}"
    return (
        f"a platform already runs on {path}{process}. Stop it with headrace stop{flag}, or give this one its own "
        "--state-dir"
    )


def holder_of(folder: Path) -> ProcessIdentity | None:
    """Returns the process that runs a platform on a state folder; None where none does. Raises NotFound while one is
    just starting, and Forbidden for the folder of another user."""
    path = folder.expanduser().absolute()
    try:
        with (path / LOCK_FILE).open() as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return _signed(lock.read(), path)
    except PermissionError:
        raise Forbidden(f"the state folder {path} belongs to another user") from None
    except OSError:
        pass
    return None


def _signed(text: str, path: Path) -> ProcessIdentity:
    try:
        content = json.loads(text)
        return ProcessIdentity(int(content["pid"]), str(content["birth"]))
    except (ValueError, KeyError, TypeError):
        if (holder := _described_holder(path)) is not None:
            return holder
        raise NotFound(f"a platform on {path} is just starting or stopping") from None


def _described_holder(path: Path) -> ProcessIdentity | None:
    """Returns the process that a description of a platform names, for a lock without a signature, as the former release
    has it. None: there is no description, or a younger process has the pid."""
    # Comes with what runs a platform; other commands work without it.
    import psutil

    described = last_platform(path)
    try:
        pid, started = int(described["pid"]), float(described["started"])
        # What a killed platform left may stand here while the next one starts.
        is_older = psutil.Process(pid).create_time() <= started + CLOCK_SECONDS
    except (KeyError, ValueError, TypeError, psutil.Error):
        return None
    return ProcessIdentity.of(pid) if is_older else None


def read_platform(folder: Path) -> dict[str, Any]:
    """Reads the description of the platform that runs on a state folder. Raises NotFound."""
    path = folder.expanduser().absolute()
    if is_held(path):
        if described := last_platform(path):
            return described
        raise NotFound(f"a platform on {path} is just starting or stopping")
    raise NotFound(f"no platform runs on {path}. Start one with: headrace up")


def is_held(folder: Path) -> bool:
    """Whether a platform runs on a state folder, or is just starting or stopping there."""
    try:
        return holder_of(folder) is not None
    except NotFound:
        return True


def last_platform(folder: Path) -> dict[str, Any]:
    """Reads the description of the platform that runs on a state folder, or was killed there; empty without one."""
    with contextlib.suppress(OSError, ValueError):
        return dict(json.loads((folder.expanduser().absolute() / PLATFORM_FILE).read_text()))
    return {}


def read_starts(folder: Path) -> dict[str, Any]:
    """Returns what each service of a running platform was started with, by name; empty when this user may not read
    it."""
    with contextlib.suppress(OSError, ValueError):
        return dict(json.loads((folder.expanduser().absolute() / STARTS_FILE).read_text()))
    return {}


def read_credential(folder: Path) -> str:
    """Returns the secret of the platform that runs on a state folder; empty when this user may not read it."""
    with contextlib.suppress(OSError):
        return (folder.expanduser().absolute() / CREDENTIAL_FILE).read_text()
    return ""
