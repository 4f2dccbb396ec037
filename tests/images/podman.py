"""podman, as root, with settings of its own."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

ENVIRONMENT = os.environ | {"CONTAINERS_CONF": str(Path(__file__).with_name("containers.conf"))}


def succeeds(*arguments: str, seconds: float = 60) -> bool:
    """Whether a command of podman ends with 0."""
    command = ["podman", *arguments]
    return not subprocess.run(command, capture_output=True, env=ENVIRONMENT, timeout=seconds, check=False).returncode


def podman(*arguments: str, text: str = "", seconds: float = 120, check: bool = True) -> str:
    """Returns what it prints. Raises AssertionError with what it says where it fails."""
    done = subprocess.run(
        ["podman", *arguments],
        input=text,
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        timeout=seconds,
        check=False,
    )
    assert not (check and done.returncode), f"podman {' '.join(arguments)}: {done.stdout}{done.stderr}"
    return done.stdout


def inspect(container: str) -> dict[str, Any]:
    found: list[dict[str, Any]] = json.loads(podman("inspect", container))
    return found[0]


def logs(container: str) -> str:
    """Both outputs of a container so far."""
    done = subprocess.run(
        ["podman", "logs", container], capture_output=True, text=True, env=ENVIRONMENT, timeout=60, check=True
    )
    return done.stdout + done.stderr
