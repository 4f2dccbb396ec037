"""Runs the scheduler: `python -m headrace.scheduler --help` lists its settings."""

from headrace.scheduler.app import open_app
from headrace.scheduler.config import SchedulerSettings
from headrace.service import run

if __name__ == "__main__":
    run("scheduler", SchedulerSettings, open_app)
