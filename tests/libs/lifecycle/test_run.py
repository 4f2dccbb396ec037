"""Care that `run` takes of a service."""

import subprocess
import sys

import pytest

LIFE = """
import contextlib, gc, os, signal, sys
gc.disable()
imported = [[] for _ in range(200_000)]
from types import SimpleNamespace
from headrace.lifecycle import Background, ServiceSettings, run

@contextlib.asynccontextmanager
async def open_app(settings):
    print(gc.isenabled(), gc.get_freeze_count())
    yield SimpleNamespace(background=Background(), over=None, loaded=[[] for _ in range(100_000)])

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
def test_what_was_imported_and_loaded_is_not_looked_at_by_later_collections() -> None:
    """Collections may be off while modules are imported, and are on while anything is loaded."""
    done = subprocess.run([sys.executable, "-c", LIFE], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    is_enabled, frozen_before, looked_at, frozen = done.stdout.split()
    assert int(looked_at) < 100_000 <= int(frozen) - int(frozen_before)
    assert is_enabled == "True"
    assert int(frozen_before) > 200_000
