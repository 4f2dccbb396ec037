"""Order of the tests: what takes longest comes first, so that no file is the last that all processes wait for.

Files whose platform the folder shares come last within it: an idle platform takes a tenth of a core.
"""

import pytest
from tests.file_times import bound_of, read_bounds

FIRST = ("tests/soak", "tests/faults", "tests/e2e", "tests/integration", "tests/deploy", "tests/libs", "tests/services")
"""Folders by the time that their longest file takes. The others, of which no file takes long, come last."""
SHARED = frozenset({"demo_platform", "embedding_platform"})
"""Fixtures that a folder shares and that take processors while they wait."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves the order within a file as it is: its tests share platforms."""
    bounds = read_bounds(config.rootpath)
    sharing = {file_of(item) for item in items if SHARED.intersection(getattr(item, "fixturenames", ()))}

    def place(item: pytest.Item) -> tuple[int, bool, float, str]:
        name = file_of(item)
        return rank(name), name in sharing, -bound_of(name, bounds), name

    items.sort(key=place)


def file_of(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


def rank(node_id: str) -> int:
    return next((index for index, folder in enumerate(FIRST) if node_id.startswith(f"{folder}/")), len(FIRST))
