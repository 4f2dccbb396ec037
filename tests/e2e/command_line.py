"""Runs `headrace`, as a process of its own or in this one."""

import io
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout

import pytest
from tests.harness.forked_up import ForkedUp, start_forked

from headrace.cli.__main__ import main
from headrace.settings.web.connection_options import AUTHORITY_VARIABLE

Done = subprocess.CompletedProcess[str]


def headrace(*arguments: str, timeout: float = 100) -> Done:
    """Runs a command in a process of its own, which is forked where that can be: it is spared the imports."""
    if (process := start_forked(arguments)) is not None:
        return _ended(process, arguments, timeout)
    command = [sys.executable, "-m", "headrace.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)


def _ended(process: ForkedUp, arguments: Sequence[str], timeout: float) -> Done:
    limit = threading.Timer(timeout, process.kill)
    limit.start()
    try:
        with process.stdout, process.stderr:
            said, warned = process.communicate()
    finally:
        limit.cancel()
    assert process.returncode is not None
    return subprocess.CompletedProcess(arguments, process.returncode, said, warned)


def headrace_here(*arguments: str, stdin: str = "") -> Done:
    """Runs a command in this process, which is spared the seconds that a start takes. A stack trace ends the test."""
    said, warned, code = io.StringIO(), io.StringIO(), 0
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(said), redirect_stderr(warned):
        patch.setattr(sys, "argv", ["headrace", *arguments])
        patch.setattr(sys, "stdin", io.StringIO(stdin))
        # Has what the command trusts forgotten with it.
        patch.setenv(AUTHORITY_VARIABLE, os.environ.get(AUTHORITY_VARIABLE, ""))
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Cyclopts application invoked without tokens")
                main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
    return subprocess.CompletedProcess(arguments, code, said.getvalue(), warned.getvalue())
