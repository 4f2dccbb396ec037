"""No folder is deep: the longest chain of imports among its subfolders and modules has few floors."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from tests.architecture.test_rooms import Code

MOST_FLOORS = 8
"""Number of rooms that one must know to follow the longest way down through a folder."""

Arrows = Mapping[str, set[str]]


def folder_arrows(imports: Iterable[tuple[str, str]]) -> dict[str, Arrows]:
    """For each folder: which of its subfolders and modules import which, a subfolder with all that lies below it."""
    arrows: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for name, target in imports:
        one, other = name.split("."), target.split(".")
        shared = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), None)
        if shared is not None:
            arrows[".".join(one[:shared])][one[shared]].add(other[shared])
    return {folder: dict(inside) for folder, inside in arrows.items()}


def longest_chain(arrows: Arrows) -> list[str]:
    """The longest chain of imports, its importer first. Raises ValueError for a circle, which has no longest chain."""
    chains: dict[str, list[str]] = {}

    def chain_from(room: str, above: tuple[str, ...]) -> list[str]:
        if room in above:
            raise ValueError(f"a circle of imports: {' > '.join((*above, room))}")
        if room not in chains:
            below = (chain_from(other, (*above, room)) for other in sorted(arrows.get(room, ())))
            chains[room] = [room, *max(below, key=len, default=[])]
        return chains[room]

    return max((chain_from(room, ()) for room in sorted(arrows)), key=len, default=[])


def deep_folders(imports: Iterable[tuple[str, str]]) -> list[str]:
    """The folders with more floors than `MOST_FLOORS`, each with its longest chain of imports."""
    chains = {folder: longest_chain(arrows) for folder, arrows in folder_arrows(imports).items()}
    return [
        f"{folder} has {len(chain)} floors, at most {MOST_FLOORS} are allowed: {' > '.join(chain)}. Move what one of "
        "these needs of the next to where both can reach it, or pass it in"
        for folder, chain in sorted(chains.items())
        if len(chain) > MOST_FLOORS
    ]


@pytest.fixture(scope="module")
def imports(root: Path) -> list[tuple[str, str]]:
    return list(Code(root).imports())


def test_no_folder_is_deep(imports: list[tuple[str, str]]) -> None:
    assert len(folder_arrows(imports)) > 50
    if deep := deep_folders(imports):
        pytest.fail("\n".join(deep))


def test_a_ninth_floor_is_found_with_its_chain() -> None:
    planted = [(f"house.room{floor}.upper", f"house.room{floor + 1}.lower") for floor in range(1, MOST_FLOORS)]
    short_cut = ("house.room1.upper", f"house.room{MOST_FLOORS}.lower")
    assert deep_folders([*planted, short_cut]) == []
    (message,) = deep_folders([*planted, short_cut, (f"house.room{MOST_FLOORS}.lower", "house.cellar")])
    assert message.startswith("house has 9 floors, at most 8 are allowed: room1 > room2 > ")
    assert " > room8 > cellar. " in message


def test_a_module_planted_below_the_engine_is_found(imports: list[tuple[str, str]]) -> None:
    """The real imports, with one room dug below the lowest."""
    chain = longest_chain(folder_arrows(imports)["headrace.engine"])
    cellars = [f"headrace.engine.cellar{number}.dark" for number in range(MOST_FLOORS + 1 - len(chain))]
    lowest = f"headrace.engine.{chain[-1]}.engine"
    planted = zip([lowest, *cellars], cellars, strict=False)
    (message,) = deep_folders([*imports, *planted])
    assert message.startswith("headrace.engine has 9 floors")
    assert " > ".join(chain) in message


def test_floors_within_a_subfolder_are_counted_there() -> None:
    inside = folder_arrows([("a.b.c", "a.b.d"), ("a.b.c", "a.e.f")])
    assert inside == {"a.b": {"c": {"d"}}, "a": {"b": {"e"}}}


def test_a_circle_is_refused() -> None:
    with pytest.raises(ValueError, match="one > other > one"):
        longest_chain({"one": {"other"}, "other": {"one"}})
