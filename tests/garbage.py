"""Garbage collection while tests are collected: it is off, because imports leave hardly any garbage and looking for it
takes a quarter of the time. What lives by then is never looked at again: it lives as long as the process.
"""

import gc

import pytest

gc.disable()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()
