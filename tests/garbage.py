"""Garbage collection while tests are collected: it is off, because imports leave hardly any garbage and looking for it
takes a quarter of the time. What lives by then is never looked at again: it lives as long as the process. From then on
it is looked for seldom, which spares a twentieth of the time of tests that compute in Python.
"""

import gc

import pytest

YOUNG_COUNT = 20_000
"""Objects more than before, after which those are looked through. Python's own is 700."""
gc.disable()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    gc.freeze()
    gc.set_threshold(YOUNG_COUNT, *gc.get_threshold()[1:])
    gc.enable()
