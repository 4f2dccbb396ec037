"""The validator's process, and what it is asked."""

import json
import subprocess
from pathlib import Path
from typing import Any

VERSIONS = ["1.31", "1.32", "1.33", "1.34", "1.35", "1.36", "1.37"]
SCRIPT = Path(__file__).with_name("validator.py")


class Validator:
    """Tells what is wrong with objects, in every version of Kubernetes that is asked about."""

    def __init__(self, python: Path) -> None:
        command = [str(python), str(SCRIPT)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def faults(self, objects: list[dict[str, Any]], versions: list[str] = VERSIONS) -> list[str]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"versions": versions, "objects": objects}) + "\n")
        self._process.stdin.flush()
        found: list[str] = json.loads(self._process.stdout.readline())
        return found

    def close(self) -> None:
        self._process.communicate(timeout=10)
