"""The finished layers of an incomplete checkpoint, on disk, so that a killed run can be resumed."""

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from headrace.errors.tree import ConfigError, InvalidCheckpoint
from headrace.storage.whole_file import SHARED, write_whole

RUN_FILE = "run.json"
LAYER_FILE = "layer-{:05}.safetensors"
LOCK_FILE = "lock"


class UnfinishedCheckpoint:
    """A folder beside the target. Layer files are written atomically."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def draft(self) -> Path:
        """Folder for assembling the whole checkpoint."""
        return self.folder / "checkpoint"

    def has(self, layer: int) -> bool:
        return self._path(layer).is_file()

    def save(self, layer: int, tensors: dict[str, Tensor]) -> None:
        """Saves a layer's tensors durably, even across a power loss."""
        path = self._path(layer)
        part = path.with_suffix(".part")
        save_file(tensors, part)
        _sync(part)
        part.rename(path)
        _sync(self.folder)

    def load(self, layer: int) -> dict[str, Tensor]:
        """Reads the tensors of a layer. Raises InvalidCheckpoint naming a broken file."""
        path = self._path(layer)
        try:
            return load_file(path)
        except (SafetensorError, OSError) as error:
            raise InvalidCheckpoint(
                f"{path} cannot be read: {error}; delete it, and its layer is done again"
            ) from error

    def _path(self, layer: int) -> Path:
        return self.folder / LAYER_FILE.format(layer)


@contextmanager
def open_unfinished(target: Path, run: Mapping[str, object]) -> Iterator[UnfinishedCheckpoint]:
    """Opens the folder that an earlier run with the same description left for `target`, or a new one.

    The folder is removed after success, and after an error if no layer is done. Raises ConfigError if the earlier run
    differs, if another process is using the folder, or if it cannot be written.
    """
    folder = target.with_name(f".{target.name}.unfinished")
    unfinished = UnfinishedCheckpoint(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / LOCK_FILE).open("w") as lock:
            _take(lock.fileno(), target)
            _check_run(folder, run)
            try:
                yield unfinished
            except BaseException:
                if not any(folder.glob(LAYER_FILE.format(0).replace("00000", "*"))):
                    shutil.rmtree(folder, ignore_errors=True)
                raise
            shutil.rmtree(folder)
    except OSError as error:
        raise ConfigError(f"{target} cannot be written: {error}") from error


def _take(lock: int, target: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ConfigError(f"Another process is writing {target} right now") from None


def _check_run(folder: Path, run: Mapping[str, object]) -> None:
    """Writes the run's description, or compares it with the existing one."""
    path = folder / RUN_FILE
    if not path.is_file():
        write_whole(path, json.dumps(run, indent=2) + "\n", mode=SHARED)
        return
    try:
        earlier = dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}; delete {folder} to start again") from error
    names = [name for name in {**earlier, **run} if earlier.get(name) != run.get(name)]
    if names:
        changes = ", ".join(f"{name} was {earlier.get(name)} and is {run.get(name)}" for name in names)
        raise ConfigError(
            f"{folder} holds an unfinished run of another kind ({changes}): start that one again to finish it, "
            "or delete the folder to start again"
        )


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
