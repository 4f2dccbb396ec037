"""Object files of earlier builds, kept in `build/kernel_objects` by what they were made from."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[4] / "build" / "kernel_objects"
MOST_FILES = 200
"""Kept files, of which an older one gives way to a newer one."""
PREPROCESS_SECONDS = 120


def compile_kept(command: list[str], seconds: float, folder: Path = FOLDER) -> bool:
    """Runs a command that ends with `-c SOURCE -o OBJECT`, or copies what it made before of the same text with the same
    flags. Returns whether a kept file served. Raises SubprocessError."""
    target = Path(command[-1])
    name = key(command)
    if name is None:
        subprocess.run(command, check=True, timeout=seconds)
        return False
    kept = folder / f"{name}.o"
    try:
        shutil.copyfile(kept, target)
        kept.touch()
        return True
    except FileNotFoundError:
        subprocess.run(command, check=True, timeout=seconds)
        keep(target, kept)
        return False


def key(command: list[str]) -> str | None:
    """Hash of the compiler, the flags and the text that it reads, with all headers. None for what it does not take, and
    for commands of another form: those run as they are."""
    if len(command) < 5 or command[-4] != "-c" or command[-2] != "-o":
        return None
    # Line numbers count where they reach the object file, for debuggers.
    without_lines = [] if any(part.startswith("-g") for part in command) else ["-P"]
    preprocess = [*command[:-4], "-E", *without_lines, command[-3]]
    done = subprocess.run(preprocess, capture_output=True, timeout=PREPROCESS_SECONDS)
    if done.returncode:
        return None
    digest = hashlib.sha256(version(command[0]))
    # Where headers lie is no part of it: they are in the text.
    flags = [part for part in command[1:-4] if not part.startswith(("-I", "/"))]
    for part in (*(flag.encode() for flag in flags), done.stdout):
        digest.update(b"%d:%b" % (len(part), part))
    return digest.hexdigest()


def version(compiler: str) -> bytes:
    return subprocess.run([compiler, "--version"], capture_output=True, check=True, timeout=60).stdout


def keep(made: Path, kept: Path) -> None:
    """Copies whole or not at all: processes build at the same time. Lets go of the oldest files beyond the limit."""
    kept.parent.mkdir(parents=True, exist_ok=True)
    descriptor, draft = tempfile.mkstemp(dir=kept.parent)
    os.close(descriptor)
    shutil.copyfile(made, draft)
    Path(draft).replace(kept)
    oldest_last = sorted(kept.parent.glob("*.o"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in oldest_last[MOST_FILES:]:
        path.unlink(missing_ok=True)
