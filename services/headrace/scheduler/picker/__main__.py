"""Runs the endpoint picker: `python -m headrace.scheduler.picker --help` lists its settings."""

import uvloop

from headrace.lifecycle.process_run import run_process
from headrace.scheduler.picker.app import run_picker
from headrace.scheduler.picker.config import PickerSettings
from headrace.telemetry.logs import configure_logging


def work(settings: PickerSettings) -> None:
    """Runs until a signal to stop."""
    configure_logging("picker", settings.log_level)
    uvloop.run(run_picker(settings))


if __name__ == "__main__":
    run_process("picker", PickerSettings, work)
