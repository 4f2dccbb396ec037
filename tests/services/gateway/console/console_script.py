"""The console's modules in node, without a browser."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from headrace.gateway.console.console_files import FOLDER

NODE = shutil.which("node")
NO_NODE = "node is not installed; to run it: install Debian's nodejs"


def run_script(program: str, module: str, given: Any, folder: Path) -> Any:
    """Gives JSON to a program of this folder, which imports a module of the console, and returns the JSON it prints."""
    for path in FOLDER.glob("*.js"):
        (folder / path.name).write_text(path.read_text())
    (folder / "package.json").write_text('{"type": "module"}')
    command = [str(NODE), str(Path(__file__).with_name(program)), (folder / module).as_uri()]
    done = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
