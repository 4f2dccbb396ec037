"""Run of a process from its settings to its exit status."""

import json
import os
import sys
from collections.abc import Callable
from typing import TypeVar

from headrace.errors import HeadraceError, TaskDied
from headrace.settings import Settings, load
from headrace.settings.description import DESCRIBE_FLAG, described

EXIT_BAD_START = 78
"""Exit status EX_CONFIG of sysexits.h: starting again with the same settings cannot help."""
EXIT_TASK_DIED = 70
"""Exit status EX_SOFTWARE of sysexits.h: starting again helps."""

S = TypeVar("S", bound=Settings)


def run_process(kind: str, schema: type[S], work: Callable[[S], None]) -> None:
    """Reads flags and environment, and works until it ends. Exits with EXIT_TASK_DIED after the failure of a task that
    the process cannot do without, and with EXIT_BAD_START after any other error. With DESCRIBE_FLAG, it prints its
    settings instead."""
    try:
        if DESCRIBE_FLAG in (flags := sys.argv[1:]):
            flags.remove(DESCRIBE_FLAG)
            sys.stdout.write(json.dumps(described(schema, kind, flags, os.environ)) + "\n")
            return
        work(load(schema, kind, flags, os.environ))
    except TaskDied as error:
        sys.stderr.write(f"headrace {kind}: {error.message}\n")
        raise SystemExit(EXIT_TASK_DIED) from None
    except HeadraceError as error:
        sys.stderr.write(f"headrace {kind}: {error.message}\n")
        raise SystemExit(EXIT_BAD_START) from None
