"""Runs the scheduler: `python -m headrace.scheduler --help` lists its settings."""

import gc

if __name__ == "__main__":
    # Imports leave hardly any garbage, and looking for it takes a tenth of their time. `run` looks again.
    gc.disable()

    from headrace.lifecycle import run
    from headrace.scheduler.app import open_app
    from headrace.scheduler.config import SchedulerSettings

    run("scheduler", SchedulerSettings, open_app)
