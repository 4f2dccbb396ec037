"""Tests lie where what they test lies: their folders mirror the product's."""

from pathlib import Path

ACROSS = {"engine/determinism", "engine/kernels/sanitizers"}
"""Folders of tests about several rooms at once, and of tools."""
NAMESAKES = {"engine/kernels/test_checked_ids.py"}
"""Tests of C++ files that share the name of a module elsewhere."""


def folders(top: Path) -> set[str]:
    return {path.parent.relative_to(top).as_posix() for path in top.rglob("*.py")}


def test_every_folder_of_tests_is_one_of_the_product(root: Path) -> None:
    for top in ("libs", "services"):
        tested, product = folders(root / "tests" / top), folders(root / top / "headrace")
        assert len(tested) > 5
        assert tested - product - ACROSS <= {"."}


def test_a_test_of_a_module_lies_beside_its_like(root: Path) -> None:
    """Names that several modules share say nothing, and are passed over."""
    wrong = []
    for top in ("libs", "services"):
        modules: dict[str, set[str]] = {}
        for path in (root / top / "headrace").rglob("*.py"):
            modules.setdefault(path.stem, set()).add(path.parent.relative_to(root / top / "headrace").as_posix())
        for path in (root / "tests" / top).rglob("test_*.py"):
            places = modules.get(path.stem.removeprefix("test_"), set())
            place = path.relative_to(root / "tests" / top)
            if len(places) == 1 and place.parent.as_posix() not in places and place.as_posix() not in NAMESAKES:
                wrong.append(f"{path.relative_to(root)}: {places}")
    assert wrong == []
