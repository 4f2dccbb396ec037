"""Runs the scheduler: `python -m headrace.scheduler --help` lists its settings."""

from headrace.lifecycle import run
from headrace.scheduler.app import open_app
from headrace.scheduler.config import SchedulerSettings

if __name__ == "__main__":
    run("scheduler", SchedulerSettings, open_app)
