"""Trees of all sources live as long as tests of this folder follow each other.

Garbage is not looked for meanwhile: trees are none, and looking through them takes several times what parsing does.
A collection at the end gives much of their memory back.
"""

import gc

import pytest
from tests.architecture import parsed_sources


def pytest_runtest_setup() -> None:
    gc.disable()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    if nextitem is None or nextitem.path.parent != item.path.parent:
        parsed_sources.forget()
        gc.enable()
        gc.collect()
