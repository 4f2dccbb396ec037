"""Runs the cache: `python -m headrace.cache --help` lists its settings."""

import gc

if __name__ == "__main__":
    # Imports leave hardly any garbage, and looking for it takes a tenth of their time. `run` looks again.
    gc.disable()

    from headrace.cache.app import open_app
    from headrace.cache.config import CacheSettings
    from headrace.lifecycle import run

    run("cache", CacheSettings, open_app)
