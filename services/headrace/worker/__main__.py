"""Runs the worker: `python -m headrace.worker --help` lists its settings."""

from headrace.lifecycle import run
from headrace.worker.app import open_app
from headrace.worker.config import WorkerSettings

if __name__ == "__main__":
    run("worker", WorkerSettings, open_app)
