"""State folder of a platform: its lock, its credential and its description."""

import contextlib
import fcntl
import json
import os
import secrets
from pathlib import Path
from typing import Any

from headrace.errors import ConfigError, NotFound
from headrace.storage.private_files import close_all_to_others, close_to_others
from headrace.storage.whole_file import write_whole

DEFAULT_FOLDER = Path("~/.local/state/headrace")
PLATFORM_FILE = "platform.json"
KEPT_FOLDERS = ("logs", "nats", "cache")
"""Folders that a platform continues to use when it is started again."""
LOCK_FILE = "lock"
CREDENTIAL_FILE = "credential"
FILES_FOLDER = "files"
"""Folder of the files and batches of clients. It stays when the platform ends."""
USAGE_FOLDER = "usage"
"""Folder of the records of what requests used. It stays when the platform ends, as does the file of keys."""

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
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(FileNotFoundError):
            (self.path / PLATFORM_FILE).unlink()
        (self.path / CREDENTIAL_FILE).unlink(missing_ok=True)
        (self.path / LOCK_FILE).unlink(missing_ok=True)
        os.close(self._lock)

    def log_path(self, name: str) -> Path:
        return self.path / "logs" / f"{name}.log"

    def write(self, platform: dict[str, Any]) -> None:
        """Replaces the description of the running platform as a whole."""
        # Only of use while the supervisor runs, which must not wait for a disk.
        write_whole(self.path / PLATFORM_FILE, json.dumps(platform), durable=False)

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
        """Takes a lock that ends with the process. The loop covers a lock file that its owner has just removed."""
        path = self.path / LOCK_FILE
        while True:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                raise ConfigError(
                    f"a platform already runs on {self.path}. Stop it, or give this one its own --state-dir",
                    param="state-dir",
                ) from None
            with contextlib.suppress(FileNotFoundError):
                if os.fstat(descriptor).st_ino == path.stat().st_ino:
                    return descriptor
            os.close(descriptor)


def read_platform(folder: Path) -> dict[str, Any]:
    """Reads the description of the platform that runs on a state folder. Raises NotFound."""
    path = folder.expanduser().absolute()
    try:
        with (path / LOCK_FILE).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        with contextlib.suppress(OSError, ValueError):
            return dict(json.loads((path / PLATFORM_FILE).read_text()))
        raise NotFound(f"a platform on {path} is just starting or stopping") from None
    except OSError:
        pass
    raise NotFound(f"no platform runs on {path}. Start one with: headrace up")


def read_credential(folder: Path) -> str:
    """Returns the secret of the platform that runs on a state folder; empty when this user may not read it."""
    with contextlib.suppress(OSError):
        return (folder.expanduser().absolute() / CREDENTIAL_FILE).read_text()
    return ""
