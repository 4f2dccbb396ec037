"""Runs the cache: `python -m headrace.cache --help` lists its settings."""

from headrace.cache.app import open_app
from headrace.cache.config import CacheSettings
from headrace.lifecycle import run

if __name__ == "__main__":
    run("cache", CacheSettings, open_app)
