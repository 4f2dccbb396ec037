"""Order of the tests: those that take longest run first, and a folder stays together, as its tests share platforms."""

from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.order import FIRST, pytest_collection_modifyitems


def order(*node_ids: str) -> list[str]:
    items: list[Any] = [SimpleNamespace(nodeid=node_id) for node_id in node_ids]
    pytest_collection_modifyitems(items)
    return [item.nodeid for item in items]


def test_the_longest_come_first_and_the_others_keep_their_order() -> None:
    found = order("tests/libs/b.py::x", "tests/alone/a.py::x", "tests/libs/a.py::x", "tests/soak/test_soak.py::x")
    assert found == ["tests/soak/test_soak.py::x", "tests/libs/b.py::x", "tests/libs/a.py::x", "tests/alone/a.py::x"]


def test_every_folder_that_has_a_place_exists(root: Path) -> None:
    assert [folder for folder in FIRST if not (root / folder).is_dir()] == []
    assert all(one != other and not other.startswith(f"{one}/") for one, other in pairwise(FIRST))
