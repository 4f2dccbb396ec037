"""Care that `run` takes of a service."""

import subprocess
import sys

import pytest

LIFE = """
import contextlib, gc, os, signal, sys
from types import SimpleNamespace
from headrace.lifecycle import Background, ServiceSettings, run

@contextlib.asynccontextmanager
async def open_app(settings):
    yield SimpleNamespace(background=Background(), loaded=[[] for _ in range(100_000)])

@contextlib.asynccontextmanager
async def serving(settings, service):
    print(len(gc.get_objects()), gc.get_freeze_count())
    os.kill(os.getpid(), signal.SIGTERM)
    yield

sys.modules["headrace.lifecycle.run"].serving = serving
sys.argv = ["test", "--service-id", "test"]
run("cache", ServiceSettings, open_app)
"""


@pytest.mark.process
def test_what_was_loaded_is_not_looked_at_by_later_collections() -> None:
    done = subprocess.run([sys.executable, "-c", LIFE], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    looked_at, frozen = map(int, done.stdout.split()[-2:])
    assert looked_at < 100_000 < frozen
