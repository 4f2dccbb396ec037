"""Runs the worker: `python -m headrace.worker --help` lists its settings."""

import gc

if __name__ == "__main__":
    # Imports leave hardly any garbage, and looking for it takes a tenth of their time. `run` looks again.
    gc.disable()

    from headrace.lifecycle import run
    from headrace.worker.app import open_app
    from headrace.worker.config import WorkerSettings

    run("worker", WorkerSettings, open_app)
