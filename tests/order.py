"""Order of the tests: folders that take longest come first, so that none is the last that all processes wait for."""

import pytest

FIRST = ("tests/soak", "tests/faults", "tests/e2e", "tests/integration", "tests/deploy", "tests/libs", "tests/services")
"""Folders by the time that their longest file takes. The others, of which no file takes long, come last."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leaves the order within a folder as it is: its tests share platforms."""
    items.sort(key=lambda item: rank(item.nodeid))


def rank(node_id: str) -> int:
    return next((index for index, folder in enumerate(FIRST) if node_id.startswith(f"{folder}/")), len(FIRST))
