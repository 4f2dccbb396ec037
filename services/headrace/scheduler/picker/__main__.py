"""Runs the endpoint picker: `python -m headrace.scheduler.picker --help` lists its settings."""

import json
import os
import sys

import uvloop

from headrace.errors import HeadraceError, TaskDied
from headrace.scheduler.picker.app import run_picker
from headrace.scheduler.picker.config import PickerSettings
from headrace.settings import load
from headrace.settings.description import DESCRIBE_FLAG, described
from headrace.telemetry.logs import configure_logging

EXIT_BAD_START = 78
"""Exit status EX_CONFIG of sysexits.h: starting again with the same settings cannot help."""
EXIT_TASK_DIED = 70
"""Exit status EX_SOFTWARE of sysexits.h: starting again helps."""


def main() -> None:
    """Reads settings from flags, environment and file, and runs the picker."""
    try:
        if DESCRIBE_FLAG in (flags := sys.argv[1:]):
            flags.remove(DESCRIBE_FLAG)
            sys.stdout.write(json.dumps(described(PickerSettings, "picker", flags, os.environ)) + "\n")
            return
        settings = load(PickerSettings, "picker", flags, os.environ)
        configure_logging("picker", settings.log_level)
        uvloop.run(run_picker(settings))
    except HeadraceError as error:
        sys.stderr.write(f"headrace picker: {error.message}\n")
        raise SystemExit(EXIT_TASK_DIED if isinstance(error, TaskDied) else EXIT_BAD_START) from None


if __name__ == "__main__":
    main()
